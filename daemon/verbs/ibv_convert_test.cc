// SPDX-License-Identifier: Apache-2.0
#include "daemon/verbs/ibv_convert.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace qpbroker::verbs {
namespace {

constexpr uint32_t kAll = kQpAttrState | kQpAttrAccessFlags | kQpAttrPkeyIndex | kQpAttrPort |
                          kQpAttrAv | kQpAttrPathMtu | kQpAttrTimeout | kQpAttrRqPsn |
                          kQpAttrMinRnrTimer | kQpAttrSqPsn | kQpAttrMaxDestRdAtomic |
                          kQpAttrDestQpn;

QpAttributes Sample() {
  QpAttributes attributes;
  attributes.state = QpState::kRtr;
  attributes.access = kAccessRemoteRead;
  attributes.pkey_index = 3;
  attributes.port = 2;
  attributes.av = {.dlid = 9,
                   .service_level = 4,
                   .source_path_bits = 1,
                   .rate_mbps = 14000,
                   .port = 2,
                   .is_global = true,
                   .dgid = {0xfe, 0x80, 1},
                   .sgid_index = 5,
                   .hop_limit = 6,
                   .traffic_class = 7,
                   .flow_label = 8};
  attributes.path_mtu = 2048;
  attributes.timeout = 14;
  attributes.rq_psn = 100;
  attributes.sq_psn = 200;
  attributes.min_rnr_timer = 12;
  attributes.max_dest_rd_atomic = 16;
  attributes.dest_qp_num = 0x800042;
  return attributes;
}

TEST(IbvConvertTest, AttributesSurviveTheWayThereAndBack) {
  const QpAttributes sample = Sample();
  const QpAttributes back = FromIbv(ToIbv(sample, kAll));
  EXPECT_EQ(back.state, sample.state);
  EXPECT_EQ(back.access, sample.access);
  EXPECT_EQ(back.pkey_index, sample.pkey_index);
  EXPECT_EQ(back.port, sample.port);
  EXPECT_EQ(back.av, sample.av);
  EXPECT_EQ(back.path_mtu, sample.path_mtu);
  EXPECT_EQ(back.timeout, sample.timeout);
  EXPECT_EQ(back.rq_psn, sample.rq_psn);
  EXPECT_EQ(back.sq_psn, sample.sq_psn);
  EXPECT_EQ(back.min_rnr_timer, sample.min_rnr_timer);
  EXPECT_EQ(back.max_dest_rd_atomic, sample.max_dest_rd_atomic);
  EXPECT_EQ(back.dest_qp_num, sample.dest_qp_num);
}

TEST(IbvConvertTest, WhatTheMaskDoesNotNameIsZero) {
  const ibv_qp_attr attr = ToIbv(Sample(), 0);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&attr);
  EXPECT_TRUE(
      std::all_of(bytes, bytes + sizeof(attr), [](unsigned char byte) { return byte == 0; }));
}

TEST(IbvConvertTest, EveryNamedRateIsOneOfLibibverbsAndBack) {
  for (int rate = IBV_RATE_MAX; rate <= IBV_RATE_1200_GBPS; ++rate) {
    if (rate == 1) continue;  // Reserved.
    const uint32_t mbps = RateMbps(static_cast<ibv_rate>(rate));
    EXPECT_TRUE(IsNamedRate(mbps)) << rate;
    EXPECT_EQ(ToIbvRate(mbps), rate);
    // The name is within 7 % of the speed.
    const int exact = rate == IBV_RATE_MAX ? 0 : ibv_rate_to_mbps(static_cast<ibv_rate>(rate));
    EXPECT_NEAR(mbps, exact, exact * 0.07);
  }
}

TEST(IbvConvertTest, NoMtuIsNoBytes) {
  EXPECT_EQ(MtuBytes(IBV_MTU_4096), 4096u);
  EXPECT_EQ(MtuBytes(static_cast<ibv_mtu>(0)), 0u);
  EXPECT_EQ(MtuBytes(static_cast<ibv_mtu>(6)), 0u);
}

TEST(IbvConvertTest, EventsThatLeaveAQpInErrorAreFatal) {
  for (ibv_event_type type : {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
    EXPECT_EQ(KindOf(type), AsyncEventKind::kQpFatal);
  }
  EXPECT_EQ(KindOf(IBV_EVENT_COMM_EST), AsyncEventKind::kQpOther);
  EXPECT_EQ(KindOf(IBV_EVENT_PORT_ERR), AsyncEventKind::kPortDown);
  EXPECT_EQ(KindOf(IBV_EVENT_DEVICE_FATAL), AsyncEventKind::kDeviceFatal);
  EXPECT_EQ(KindOf(IBV_EVENT_GID_CHANGE), AsyncEventKind::kOther);
  EXPECT_EQ(KindOf(IBV_EVENT_SRQ_ERR), AsyncEventKind::kOther);
}

}  // namespace
}  // namespace qpbroker::verbs
