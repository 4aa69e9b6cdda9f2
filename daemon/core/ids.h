// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_IDS_H_
#define QPBROKER_DAEMON_CORE_IDS_H_

#include <compare>
#include <cstdint>
#include <utility>

namespace qpbroker::core {

// A number that cannot be mistaken for another kind of number. Counted from 1, never reused by one
// daemon process; 0 is no object.
template <class Tag>
class StrongId {
 public:
  constexpr StrongId() = default;
  explicit constexpr StrongId(uint64_t value) : value_(value) {}
  constexpr uint64_t value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;

  template <class H>
  friend H AbslHashValue(H state, StrongId id) {
    return H::combine(std::move(state), id.value_);
  }

 private:
  uint64_t value_ = 0;
};

using XrcdId = StrongId<struct XrcdIdTag>;
// A QP in the books. Not its number: the device uses numbers again.
using QpId = StrongId<struct QpIdTag>;
// Also the grant id that tags delivered descriptors.
using LeaseId = StrongId<struct LeaseIdTag>;
using SessionId = StrongId<struct SessionIdTag>;

// Which life of the daemon a name comes from: 48 random bits, never 0.
using Generation = StrongId<struct GenerationTag>;

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_IDS_H_
