// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/resource_name.h"

#include <gtest/gtest.h>

#include <string>

#include "common/error_reason.h"

namespace qpbroker::core {
namespace {

const Generation kGeneration(0x5f0c2a9b11d4);
const XrcdKey kKey{"mlx5_0", 1000, "job-7"};

TEST(ResourceNameTest, WhatIsWrittenIsRead) {
  auto xrcd = ParseXrcdName("xrcd", FormatXrcdName(kKey, kGeneration));
  ASSERT_TRUE(xrcd.ok()) << xrcd.status();
  EXPECT_EQ(xrcd->key, kKey);
  EXPECT_EQ(xrcd->generation, kGeneration);

  auto qp = ParseQpName("qp", FormatQpName(kKey, kGeneration, 0x800012));
  ASSERT_TRUE(qp.ok()) << qp.status();
  EXPECT_EQ(qp->number, 0x800012u);
  EXPECT_EQ(qp->xrcd.key, kKey);

  auto lease = ParseLeaseName("lease", FormatLeaseName(LeaseId(17), kGeneration));
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->id, LeaseId(17));
}

TEST(ResourceNameTest, FormIsTheDocumentedOne) {
  EXPECT_EQ(FormatQpName(kKey, kGeneration, 0x800012),
            "devices/mlx5_0/xrcds/1000/job-7@5f0c2a9b11d4/qps/0x800012");
  EXPECT_EQ(FormatLeaseName(LeaseId(17), kGeneration), "leases/17@5f0c2a9b11d4");
  EXPECT_EQ(FormatSessionName(SessionId(3), kGeneration), "sessions/3@5f0c2a9b11d4");
}

TEST(ResourceNameTest, GenerationMayBeLeftOutOfADomainsName) {
  auto xrcd = ParseXrcdName("xrcd", "devices/mlx5_0/xrcds/1000/job-7");
  ASSERT_TRUE(xrcd.ok()) << xrcd.status();
  EXPECT_FALSE(xrcd->generation.has_value());
}

TEST(ResourceNameTest, EverythingElseIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("devices"), std::string("devices/mlx5_0/xrcds/1000"),
        std::string("devices/../xrcds/1000/job"), std::string("devices/mlx5_0/xrcds/-1/job"),
        std::string("devices/mlx5_0/xrcds/01/job"), std::string("devices/mlx5_0/xrcds/+1/job"),
        std::string("devices/mlx5_0/xrcds/4294967296/job"),
        std::string("devices/mlx5_0/xrcds/1000/job@"),
        std::string("devices/mlx5_0/xrcds/1000/job@5F0C2A9B11D4"),
        std::string("devices/mlx5_0/xrcds/1000/job@000000000000"),
        std::string("devices/mlx5_0/xrcds/1000/job@1@2"),
        std::string("devices/mlx5_0/xrcds/1000/.."), std::string("devices/mlx5_0/xrcds/1000/"),
        std::string("devices/mlx5_0/xrcds/1000/a\0b", 29),
        std::string("devices/mlx5_0/xrcds/1000/job/qps"),
        "devices/mlx5_0/xrcds/1000/" + std::string(10000, 'a')}) {
    absl::Status status = ParseXrcdName("xrcd", text).status();
    EXPECT_EQ(ReasonOf(status), v1::REASON_INVALID_FIELD) << text;
    EXPECT_LT(status.message().size(), 300u) << "an error must not echo 10 kB";
    EXPECT_EQ(status.message().find('\0'), absl::string_view::npos);
  }
  for (const char* number :
       {"0", "0x0", "0x1000000", "0xffffffff", "800012", "0x", "0X12", "0xAB"}) {
    std::string text = "devices/mlx5_0/xrcds/1000/job/qps/" + std::string(number);
    EXPECT_EQ(ReasonOf(ParseQpName("qp", text).status()), v1::REASON_INVALID_FIELD) << text;
  }
  for (const char* text : {"leases/0@5f0c2a9b11d4", "leases/1", "leases/@5f0c2a9b11d4", "1",
                           "sessions/1@5f0c2a9b11d4", "leases/18446744073709551616@5f0c2a9b11d4"}) {
    EXPECT_EQ(ReasonOf(ParseLeaseName("lease", text).status()), v1::REASON_INVALID_FIELD) << text;
  }
}

TEST(ResourceNameTest, DeviceMayBeGivenWithOrWithoutCollection) {
  EXPECT_EQ(*ParseDeviceName("device", "mlx5_0"), "mlx5_0");
  EXPECT_EQ(*ParseDeviceName("device", "devices/mlx5_0"), "mlx5_0");
  EXPECT_FALSE(ParseDeviceName("device", "../../x").ok());
  EXPECT_FALSE(ParseDeviceName("device", "").ok());
}

TEST(ResourceNameTest, RulesForNamesKeysAndRequestIds) {
  EXPECT_TRUE(IsXrcdName("job-7.x_Y"));
  EXPECT_FALSE(IsXrcdName(".hidden"));
  EXPECT_FALSE(IsXrcdName("a/b"));
  EXPECT_TRUE(IsXrcdName(std::string(64, 'a')));
  EXPECT_FALSE(IsXrcdName(std::string(65, 'a')));
  EXPECT_TRUE(IsQpKey(""));
  EXPECT_TRUE(IsQpKey("node1:rank/0"));
  EXPECT_FALSE(IsQpKey("a b"));
  EXPECT_FALSE(IsQpKey(std::string(129, 'a')));
  EXPECT_FALSE(IsRequestId(""));
  EXPECT_FALSE(IsRequestId("a\n"));
  EXPECT_FALSE(IsRequestId(std::string(65, 'a')));
  EXPECT_TRUE(IsRequestId("6ba7b810-9dad-11d1-80b4-00c04fd430c8"));
}

}  // namespace
}  // namespace qpbroker::core
