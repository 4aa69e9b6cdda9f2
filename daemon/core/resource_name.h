// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_RESOURCE_NAME_H_
#define QPBROKER_DAEMON_CORE_RESOURCE_NAME_H_

// Resource names as in resources.proto, parsed and made. Parsing refuses with INVALID_FIELD
// whatever the daemon would not have written itself.

#include <sys/types.h>

#include <compare>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/core/ids.h"

namespace qpbroker::core {

// How people find a domain.
struct XrcdKey {
  std::string device;
  uid_t owner = 0;
  std::string name;
  auto operator<=>(const XrcdKey&) const = default;

  template <class H>
  friend H AbslHashValue(H state, const XrcdKey& key) {
    return H::combine(std::move(state), key.device, key.owner, key.name);
  }
};

struct XrcdName {
  XrcdKey key;
  std::optional<Generation> generation;
};

struct QpName {
  XrcdName xrcd;
  uint32_t number = 0;
};

struct LeaseName {
  LeaseId id;
  Generation generation;
};

// `field` is the request's field, for the error.
absl::StatusOr<XrcdName> ParseXrcdName(absl::string_view field, absl::string_view text);
absl::StatusOr<QpName> ParseQpName(absl::string_view field, absl::string_view text);
absl::StatusOr<LeaseName> ParseLeaseName(absl::string_view field, absl::string_view text);

// A device's name with or without "devices/".
absl::StatusOr<std::string> ParseDeviceName(absl::string_view field, absl::string_view text);

// Whether `text` may be a domain's name, a QP's key (which may also be empty), a request_id.
bool IsXrcdName(absl::string_view text);
bool IsQpKey(absl::string_view text);
bool IsRequestId(absl::string_view text);

std::string FormatGeneration(Generation generation);
std::string FormatXrcdName(const XrcdKey& key, Generation generation);
std::string FormatQpName(const XrcdKey& key, Generation generation, uint32_t number);
std::string FormatLeaseName(LeaseId id, Generation generation);
std::string FormatSessionName(SessionId id, Generation generation);

// "0x800012"
std::string FormatQpNumber(uint32_t number);

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_RESOURCE_NAME_H_
