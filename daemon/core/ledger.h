// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_LEDGER_H_
#define QPBROKER_DAEMON_CORE_LEDGER_H_

// Who is charged for what. A thing that costs owns its Charge as a member; the Charge's destruction
// is the only refund.
//
//   absl::StatusOr<Charge> charge = ledger.ChargeFor(uid, Quota::kLeases);
//   if (!charge.ok()) return charge.status();  // QUOTA_EXCEEDED
//
// Thread-safe: its lock is a leaf, taken under the broker's. A Ledger must outlive its charges, and
// aborts if it is destroyed before the books balance.

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace qpbroker::core {

enum class Quota : uint8_t { kConnections, kSessions, kLeases, kXrcds, kQps };
inline constexpr size_t kQuotaCount = 5;

// "leases"
absl::string_view QuotaName(Quota quota);

// Limits for each user.
using QuotaLimits = std::array<uint32_t, kQuotaCount>;

class Ledger;

// One unit of one quota of one user. Move-only.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)), uid_(other.uid_), quota_(other.quota_) {}
  Charge& operator=(Charge&& other) noexcept;
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() { Refund(); }

 private:
  friend class Ledger;
  Charge(Ledger* ledger, uid_t uid, Quota quota) : ledger_(ledger), uid_(uid), quota_(quota) {}
  void Refund();

  Ledger* ledger_ = nullptr;
  uid_t uid_ = 0;
  Quota quota_ = Quota::kConnections;
};

class Ledger {
 public:
  explicit Ledger(const QuotaLimits& limits) : limits_(limits) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  ~Ledger();

  // QUOTA_EXCEEDED with quota, limit and used when the user is at the limit.
  absl::StatusOr<Charge> ChargeFor(uid_t uid, Quota quota) ABSL_LOCKS_EXCLUDED(mutex_);

  // For what an earlier daemon granted: the limit may be lower now, and the thing is there all the
  // same.
  Charge ChargeRestored(uid_t uid, Quota quota) ABSL_LOCKS_EXCLUDED(mutex_);

  // Units that `uid` is charged for.
  uint32_t Balance(uid_t uid, Quota quota) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Users that are charged for anything.
  size_t users() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class Charge;
  void Refund(uid_t uid, Quota quota) ABSL_LOCKS_EXCLUDED(mutex_);

  const QuotaLimits limits_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uid_t, std::array<uint32_t, kQuotaCount>> balances_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_LEDGER_H_
