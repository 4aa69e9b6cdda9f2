// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/session_table.h"

#include <gtest/gtest.h>

namespace qpbroker::core {
namespace {

const PeerCredentials kAlice{1001, 1001, {}, 7};

TEST(SessionTableTest, NonceWorksOnce) {
  SessionTable table;
  SessionId id = table.Add(kAlice, "nonce", absl::Now(), Charge())->id;
  EXPECT_EQ(table.UseNonce("nonce", 1001), id);
  EXPECT_EQ(table.UseNonce("nonce", 1001), std::nullopt);
}

TEST(SessionTableTest, NonceOfAnotherUserIsRefusedAndStaysGood) {
  SessionTable table;
  SessionId id = table.Add(kAlice, "nonce", absl::Now(), Charge())->id;
  EXPECT_EQ(table.UseNonce("nonce", 1002), std::nullopt);
  EXPECT_EQ(table.UseNonce("nonce", 1001), id);
}

TEST(SessionTableTest, NonceEndsWithItsSession) {
  SessionTable table;
  SessionId id = table.Add(kAlice, "nonce", absl::Now(), Charge())->id;
  table.Remove(id);
  EXPECT_EQ(table.UseNonce("nonce", 1001), std::nullopt);
  EXPECT_FALSE(table.Contains(id));
  table.Remove(id);
}

TEST(SessionTableTest, SameNonceTwiceIsRefused) {
  SessionTable table;
  EXPECT_NE(table.Add(kAlice, "nonce", absl::Now(), Charge()), nullptr);
  EXPECT_EQ(table.Add(kAlice, "nonce", absl::Now(), Charge()), nullptr);
}

}  // namespace
}  // namespace qpbroker::core
