// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/policy.h"

#include <gtest/gtest.h>

namespace qpbroker::core {
namespace {

const PeerCredentials kOwner{1001, 1001, {}, 1};
const PeerCredentials kGroupMember{1002, 1002, {50, 2000, 3000}, 1};
const PeerCredentials kPrimaryGroup{1003, 2000, {}, 1};
const PeerCredentials kListed{1004, 1004, {}, 1};
const PeerCredentials kStranger{1666, 1666, {1999, 2001}, 1};
const PeerCredentials kRoot{0, 0, {0}, 1};

DomainAcl Acl(uint32_t mode) { return {1001, 2000, mode, {1000, 1004, 1009}}; }

TEST(PolicyTest, EachClassHasItsOwnBits) {
  EXPECT_TRUE(Allows(Acl(0600), kOwner, Access::kRead));
  EXPECT_TRUE(Allows(Acl(0600), kOwner, Access::kWrite));
  EXPECT_FALSE(Allows(Acl(0600), kGroupMember, Access::kRead));
  EXPECT_TRUE(Allows(Acl(0640), kGroupMember, Access::kRead));
  EXPECT_FALSE(Allows(Acl(0640), kGroupMember, Access::kWrite));
  EXPECT_TRUE(Allows(Acl(0660), kPrimaryGroup, Access::kWrite));
  EXPECT_TRUE(Allows(Acl(0604), kStranger, Access::kRead));
  EXPECT_FALSE(Allows(Acl(0660), kStranger, Access::kRead));
}

TEST(PolicyTest, ListedMembersHaveTheBitsOfTheGroup) {
  EXPECT_TRUE(Allows(Acl(0660), kListed, Access::kWrite));
  EXPECT_FALSE(Allows(Acl(0606), kListed, Access::kRead));
}

// As for files: the first class that fits decides, even if another one would allow it.
TEST(PolicyTest, OwnerIsNotHelpedByTheOtherClasses) {
  EXPECT_FALSE(Allows(Acl(0066), kOwner, Access::kRead));
  EXPECT_FALSE(Allows(Acl(0606), kGroupMember, Access::kRead));
}

TEST(PolicyTest, RootIsNobodySpecial) { EXPECT_FALSE(Allows(Acl(0660), kRoot, Access::kRead)); }

}  // namespace
}  // namespace qpbroker::core
