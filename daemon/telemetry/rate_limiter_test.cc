// SPDX-License-Identifier: Apache-2.0
#include "daemon/telemetry/rate_limiter.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace qpbroker::telemetry {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000'000);

TEST(RateLimiterTest, AdmitsOncePerIntervalAndCountsTheRest) {
  RateLimiter limiter(absl::Minutes(1), 10);
  EXPECT_EQ(limiter.Admit("a", kStart), 0u);
  EXPECT_EQ(limiter.Admit("a", kStart), std::nullopt);
  EXPECT_EQ(limiter.Admit("a", kStart + absl::Seconds(59)), std::nullopt);
  EXPECT_EQ(limiter.Admit("a", kStart + absl::Seconds(60)), 2u);
  EXPECT_EQ(limiter.Admit("a", kStart + absl::Seconds(120)), 0u);
}

TEST(RateLimiterTest, KeysDoNotDisturbEachOther) {
  RateLimiter limiter(absl::Minutes(1), 10);
  EXPECT_EQ(limiter.Admit("a", kStart), 0u);
  EXPECT_EQ(limiter.Admit("b", kStart), 0u);
  EXPECT_EQ(limiter.Admit("a", kStart), std::nullopt);
}

TEST(RateLimiterTest, KeysBeyondTheLimitShareOne) {
  RateLimiter limiter(absl::Minutes(1), 10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limiter.Admit(absl::StrCat(i), kStart), 0u);
  EXPECT_EQ(limiter.Admit("stranger", kStart), 0u);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(limiter.Admit(absl::StrCat("x", i), kStart), std::nullopt);
  EXPECT_EQ(limiter.Admit("3", kStart), std::nullopt) << "the known ones keep their own count";
  EXPECT_EQ(limiter.Admit("stranger", kStart + absl::Minutes(1)), 0u) << "there is room again";
  EXPECT_EQ(limiter.Admit("3", kStart + absl::Minutes(1)), 1u);
}

}  // namespace
}  // namespace qpbroker::telemetry
