// SPDX-License-Identifier: Apache-2.0
#include "client/src/convert.h"

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace qpbroker::client {
namespace {

constexpr Gid kDgid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr Gid kSgid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};

Path FullPath() {
  return {
      .dlid = 5,
      .global_route =
          GlobalRoute{
              .dgid = kDgid, .sgid = kSgid, .hop_limit = 6, .traffic_class = 7, .flow_label = 8},
      .service_level = 9,
      .source_path_bits = 10,
      .rate_mbps = 2500};
}

QpAttributes FullAttributes() {
  return {.state = QpState::kRtr,
          .port = 1,
          .pkey = 0xffff,
          .access = AccessFlags{.local_write = true, .remote_read = true},
          .path_mtu = 1024,
          .dest_qp_num = 11,
          .rq_psn = 12,
          .sq_psn = 13,
          .max_dest_rd_atomic = 0,
          .min_rnr_timer = 14,
          .timeout = 0,
          .path = FullPath()};
}

// Every field of every message goes both ways: what comes back makes the same message again.
TEST(ConvertTest, QpAttributesGoBothWays) {
  v1::QpAttributes there;
  ToProto(FullAttributes(), there);
  const auto* fields = there.GetDescriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    EXPECT_TRUE(there.GetReflection()->HasField(there, fields->field(i)))
        << fields->field(i)->name();
  }
  EXPECT_EQ(there.path().global_route().dgid(), std::string(kDgid.begin(), kDgid.end()));
  v1::QpAttributes again;
  ToProto(FromProto(there), again);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(there, again));
}

TEST(ConvertTest, WhatIsNotGivenIsNotSent) {
  v1::QpAttributes message;
  ToProto(QpAttributes(), message);
  EXPECT_EQ(message.ByteSizeLong(), 0u);
}

TEST(ConvertTest, SourceGidMayBeAnIndexAlsoZero) {
  v1::QpAttributes message;
  ToProto({.path = Path{.global_route = GlobalRoute{.sgid_index = 0}}}, message);
  EXPECT_TRUE(message.path().global_route().sgid().has_index());
}

TEST(ConvertTest, OpenXrcdOptions) {
  v1::OpenXrcdRequest request;
  ToProto(OpenXrcdOptions{.device = "vhca0",
                          .owner_uid = 0,
                          .name = "job-7",
                          .create = true,
                          .exclusive = true,
                          .mode = 0660,
                          .gid = 0,
                          .member_uids = {1, 2},
                          .life = XrcdLife::kPersistent},
          request);
  EXPECT_EQ(request.device(), "vhca0");
  EXPECT_TRUE(request.has_owner_uid());
  EXPECT_EQ(request.name(), "job-7");
  EXPECT_TRUE(request.create());
  EXPECT_TRUE(request.exclusive());
  EXPECT_EQ(request.mode(), 0660u);
  EXPECT_TRUE(request.has_gid());
  EXPECT_EQ(request.member_uids_size(), 2);
  EXPECT_EQ(request.life(), v1::XRCD_LIFE_PERSISTENT);
}

TEST(ConvertTest, ConnectQpOptions) {
  v1::ConnectQpRequest request;
  ToProto(ConnectQpOptions{.remote = {.qp_num = 1, .psn = 2, .path = FullPath()},
                           .port = 3,
                           .pkey = 0x8001,
                           .access = AccessFlags{.remote_atomic = true},
                           .path_mtu = 4096,
                           .psn = 0,
                           .max_dest_rd_atomic = 0,
                           .min_rnr_timer = 0,
                           .timeout = 0},
          request);
  EXPECT_EQ(request.remote().qp_num(), 1u);
  EXPECT_EQ(request.remote().psn(), 2u);
  EXPECT_EQ(request.remote().path().dlid(), 5u);
  EXPECT_EQ(request.port(), 3u);
  EXPECT_EQ(request.pkey(), 0x8001u);
  EXPECT_TRUE(request.access().remote_atomic());
  EXPECT_EQ(request.path_mtu(), 4096u);
  EXPECT_TRUE(request.has_psn() && request.has_max_dest_rd_atomic());
  EXPECT_TRUE(request.has_min_rnr_timer() && request.has_timeout());
}

TEST(ConvertTest, DefaultsOfConnectQpAreThoseOfTheApi) {
  v1::ConnectQpRequest request;
  ToProto(ConnectQpOptions(), request);
  EXPECT_EQ(request.pkey(), 0xffffu);
  EXPECT_EQ(request.port(), 1u);
  EXPECT_FALSE(request.has_access() || request.has_psn() || request.has_max_dest_rd_atomic() ||
               request.has_min_rnr_timer() || request.has_timeout());
}

TEST(ConvertTest, WhatTheFutureSendsIsUnknownOrDefault) {
  EXPECT_EQ(FromProto(static_cast<v1::QpState>(99)), QpState::kUnknown);
  v1::Device device;
  device.add_ports()->set_state(static_cast<v1::PortState>(99));
  EXPECT_EQ(FromProto(device).ports[0].state, PortState::kUnknown);
  v1::Xrcd xrcd;
  xrcd.set_life(static_cast<v1::XrcdLife>(99));
  EXPECT_EQ(FromProto(xrcd).life, XrcdLife::kLeases);
}

TEST(ConvertTest, GidOfAWrongLengthIsNone) {
  v1::QpEndpoint endpoint;
  endpoint.set_gid("short");
  EXPECT_EQ(FromProto(endpoint).gid, Gid());
}

TEST(ConvertTest, TimesKeepTheirNanosecondsAndAbsurdOnesDoNotOverflow) {
  v1::Lease lease;
  lease.mutable_create_time()->set_seconds(1'700'000'000);
  lease.mutable_create_time()->set_nanos(5);
  EXPECT_EQ(FromProto(lease).create_time.time_since_epoch(),
            std::chrono::nanoseconds(1'700'000'000'000'000'005));
  for (int64_t seconds :
       {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    lease.mutable_create_time()->set_seconds(seconds);
    static_cast<void>(FromProto(lease));
  }
}

}  // namespace
}  // namespace qpbroker::client
