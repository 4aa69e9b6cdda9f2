// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/ledger.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"

namespace qpbroker::core {
namespace {

// Lost books cannot be mended while running: the process ends and its successor starts with true
// ones.
[[noreturn]] void AbortUnbalanced(const char* what) {
  std::fprintf(stderr, "qpbroker: the ledger does not balance: %s\n", what);
  std::abort();
}

}  // namespace

absl::string_view QuotaName(Quota quota) {
  switch (quota) {
    case Quota::kConnections:
      return "connections";
    case Quota::kSessions:
      return "sessions";
    case Quota::kLeases:
      return "leases";
    case Quota::kXrcds:
      return "xrcds";
    case Quota::kQps:
      return "qps";
  }
  return "unknown";
}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this != &other) {
    Refund();
    ledger_ = std::exchange(other.ledger_, nullptr);
    uid_ = other.uid_;
    quota_ = other.quota_;
  }
  return *this;
}

void Charge::Refund() {
  if (ledger_ != nullptr) std::exchange(ledger_, nullptr)->Refund(uid_, quota_);
}

Ledger::~Ledger() {
  absl::MutexLock lock(&mutex_);
  if (!balances_.empty()) AbortUnbalanced("destroyed while somebody is charged");
}

absl::StatusOr<Charge> Ledger::ChargeFor(uid_t uid, Quota quota) {
  const auto slot = static_cast<size_t>(quota);
  uint32_t used;
  {
    absl::MutexLock lock(&mutex_);
    auto& balance = balances_[uid];
    used = balance[slot];
    if (used < limits_[slot]) {
      ++balance[slot];
      return Charge(this, uid, quota);
    }
    if (balance == std::array<uint32_t, kQuotaCount>{}) balances_.erase(uid);
  }
  const std::string name(QuotaName(quota));
  return MakeError(
      v1::REASON_QUOTA_EXCEEDED,
      absl::StrCat("your quota of ", limits_[slot], " ", name, " is used up (", used, " in use)"),
      {{"quota", name}, {"limit", absl::StrCat(limits_[slot])}, {"used", absl::StrCat(used)}});
}

Charge Ledger::ChargeRestored(uid_t uid, Quota quota) {
  absl::MutexLock lock(&mutex_);
  ++balances_[uid][static_cast<size_t>(quota)];
  return Charge(this, uid, quota);
}

uint32_t Ledger::Balance(uid_t uid, Quota quota) const {
  absl::MutexLock lock(&mutex_);
  auto found = balances_.find(uid);
  return found == balances_.end() ? 0 : found->second[static_cast<size_t>(quota)];
}

size_t Ledger::users() const {
  absl::MutexLock lock(&mutex_);
  return balances_.size();
}

void Ledger::Refund(uid_t uid, Quota quota) {
  absl::MutexLock lock(&mutex_);
  auto found = balances_.find(uid);
  if (found == balances_.end()) AbortUnbalanced("refund for a user who is not charged");
  uint32_t& used = found->second[static_cast<size_t>(quota)];
  if (used == 0) AbortUnbalanced("refund below zero");
  --used;
  if (found->second == std::array<uint32_t, kQuotaCount>{}) balances_.erase(found);
}

}  // namespace qpbroker::core
