// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/ledger.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/error_reason.h"

namespace qpbroker::core {
namespace {

constexpr uid_t kAlice = 1001;
constexpr uid_t kBob = 1002;

TEST(LedgerTest, ChargeLastsAsLongAsItsOwner) {
  Ledger ledger({1, 1, 2, 1, 1});
  {
    absl::StatusOr<Charge> charge = ledger.ChargeFor(kAlice, Quota::kLeases);
    ASSERT_TRUE(charge.ok());
    EXPECT_EQ(ledger.Balance(kAlice, Quota::kLeases), 1u);
    Charge moved = *std::move(charge);
    EXPECT_EQ(ledger.Balance(kAlice, Quota::kLeases), 1u);
  }
  EXPECT_EQ(ledger.Balance(kAlice, Quota::kLeases), 0u);
  EXPECT_EQ(ledger.users(), 0u);
}

TEST(LedgerTest, RefusalSaysWhichQuotaItsSizeAndItsUse) {
  Ledger ledger({1, 1, 2, 1, 1});
  auto first = ledger.ChargeFor(kAlice, Quota::kLeases);
  auto second = ledger.ChargeFor(kAlice, Quota::kLeases);
  absl::Status third = ledger.ChargeFor(kAlice, Quota::kLeases).status();
  EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(third), v1::REASON_QUOTA_EXCEEDED);
  auto metadata = ErrorInfoOf(third)->metadata();
  EXPECT_EQ(metadata["quota"], "leases");
  EXPECT_EQ(metadata["limit"], "2");
  EXPECT_EQ(metadata["used"], "2");
}

TEST(LedgerTest, UsersAndQuotasAreApart) {
  Ledger ledger({1, 1, 1, 1, 1});
  auto lease = ledger.ChargeFor(kAlice, Quota::kLeases);
  EXPECT_TRUE(ledger.ChargeFor(kBob, Quota::kLeases).ok());
  EXPECT_TRUE(ledger.ChargeFor(kAlice, Quota::kQps).ok());
  EXPECT_FALSE(ledger.ChargeFor(kAlice, Quota::kLeases).ok());
}

TEST(LedgerTest, AssignmentRefundsWhatItReplaces) {
  Ledger ledger({1, 1, 5, 1, 1});
  Charge charge = *ledger.ChargeFor(kAlice, Quota::kLeases);
  charge = *ledger.ChargeFor(kBob, Quota::kLeases);
  EXPECT_EQ(ledger.Balance(kAlice, Quota::kLeases), 0u);
  EXPECT_EQ(ledger.Balance(kBob, Quota::kLeases), 1u);
  charge = Charge();
  EXPECT_EQ(ledger.Balance(kBob, Quota::kLeases), 0u);
}

TEST(LedgerTest, QuotaOfZeroAllowsNoneAndLeavesNoTrace) {
  Ledger ledger({0, 0, 0, 0, 0});
  EXPECT_FALSE(ledger.ChargeFor(kAlice, Quota::kXrcds).ok());
  EXPECT_EQ(ledger.users(), 0u);
}

TEST(LedgerDeathTest, LostBooksAbort) {
  EXPECT_DEATH(
      {
        auto ledger = std::make_unique<Ledger>(QuotaLimits{1, 1, 1, 1, 1});
        Charge charge = *ledger->ChargeFor(kAlice, Quota::kQps);
        ledger.reset();
      },
      "does not balance");
}

}  // namespace
}  // namespace qpbroker::core
