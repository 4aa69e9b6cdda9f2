// SPDX-License-Identifier: Apache-2.0
#include "daemon/verbs/qp_attributes.h"

#include <gtest/gtest.h>

namespace qpbroker::verbs {
namespace {

TEST(QpAttributesTest, NamesOfRatesAreAcceptedAndExactSpeedsAreNot) {
  for (uint32_t rate : {0, 2500, 14000, 56000, 100000, 1200000})
    EXPECT_TRUE(IsNamedRate(rate)) << rate;
  for (uint32_t rate : {1, 2499, 14062, 56250, 103125, 1200001})
    EXPECT_FALSE(IsNamedRate(rate)) << rate;
}

TEST(QpAttributesTest, OnlyTheFiveMtusOfInfiniBandArePathMtus) {
  for (uint32_t mtu : {256, 512, 1024, 2048, 4096}) EXPECT_TRUE(IsPathMtu(mtu)) << mtu;
  for (uint32_t mtu : {0, 1, 128, 1500, 4095, 8192}) EXPECT_FALSE(IsPathMtu(mtu)) << mtu;
}

}  // namespace
}  // namespace qpbroker::verbs
