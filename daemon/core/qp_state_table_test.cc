// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/qp_state_table.h"

#include <gtest/gtest.h>

#include <string>

#include "common/error_reason.h"

namespace qpbroker::core {
namespace {

using namespace verbs;  // NOLINT: the table is about nothing else.

constexpr uint32_t kInit = kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
constexpr uint32_t kRtr = kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                          kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
constexpr uint32_t kRts = kQpAttrTimeout | kQpAttrSqPsn;

std::string Attribute(const absl::Status& status) {
  return ErrorInfoOf(status)->metadata().at("attribute");
}

TEST(QpStateTableTest, ConnectionGoesThroughItsThreeSteps) {
  EXPECT_TRUE(CheckTransition(QpState::kReset, QpState::kInit, kInit).ok());
  EXPECT_TRUE(CheckTransition(QpState::kInit, QpState::kRtr, kRtr).ok());
  EXPECT_TRUE(CheckTransition(QpState::kRtr, QpState::kRts, kRts).ok());
}

TEST(QpStateTableTest, EveryMissingAttributeIsNamed) {
  struct Case {
    QpState from, to;
    uint32_t required, without;
    const char* name;
  };
  for (const Case& c : {
           Case{QpState::kReset, QpState::kInit, kInit, kQpAttrPkeyIndex, "pkey"},
           Case{QpState::kReset, QpState::kInit, kInit, kQpAttrPort, "port"},
           Case{QpState::kReset, QpState::kInit, kInit, kQpAttrAccessFlags, "access"},
           Case{QpState::kInit, QpState::kRtr, kRtr, kQpAttrAv, "path"},
           Case{QpState::kInit, QpState::kRtr, kRtr, kQpAttrPathMtu, "path_mtu"},
           Case{QpState::kInit, QpState::kRtr, kRtr, kQpAttrDestQpn, "dest_qp_num"},
           Case{QpState::kInit, QpState::kRtr, kRtr, kQpAttrRqPsn, "rq_psn"},
           Case{QpState::kInit, QpState::kRtr, kRtr, kQpAttrMaxDestRdAtomic, "max_dest_rd_atomic"},
           Case{QpState::kInit, QpState::kRtr, kRtr, kQpAttrMinRnrTimer, "min_rnr_timer"},
           Case{QpState::kRtr, QpState::kRts, kRts, kQpAttrTimeout, "timeout"},
           Case{QpState::kRtr, QpState::kRts, kRts, kQpAttrSqPsn, "sq_psn"},
       }) {
    absl::Status status = CheckTransition(c.from, c.to, c.required & ~c.without);
    EXPECT_EQ(ReasonOf(status), v1::REASON_INVALID_TRANSITION) << c.name;
    EXPECT_EQ(Attribute(status), c.name);
  }
}

TEST(QpStateTableTest, AttributeOutOfPlaceIsNamedWithTheTransition) {
  absl::Status status = CheckTransition(QpState::kReset, QpState::kInit, kInit | kQpAttrSqPsn);
  EXPECT_EQ(Attribute(status), "sq_psn");
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("transition"), "RESET->INIT");
  EXPECT_EQ(Attribute(CheckTransition(QpState::kRts, QpState::kErr, kQpAttrPort)), "port");
}

TEST(QpStateTableTest, EveryStateGoesToResetAndErr) {
  for (QpState from : {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts, QpState::kSqd,
                       QpState::kSqe, QpState::kErr}) {
    EXPECT_TRUE(CheckTransition(from, QpState::kReset, 0).ok());
    EXPECT_TRUE(CheckTransition(from, QpState::kErr, 0).ok());
  }
}

TEST(QpStateTableTest, TransitionThatDoesNotExistNamesNoAttribute) {
  for (auto [from, to] :
       {std::pair(QpState::kReset, QpState::kRtr), std::pair(QpState::kReset, QpState::kRts),
        std::pair(QpState::kErr, QpState::kRts), std::pair(QpState::kRtr, QpState::kRtr),
        std::pair(QpState::kInit, QpState::kSqd)}) {
    absl::Status status = CheckTransition(from, to, kRtr);
    EXPECT_EQ(ReasonOf(status), v1::REASON_INVALID_TRANSITION);
    EXPECT_EQ(ErrorInfoOf(status)->metadata().count("attribute"), 0u);
  }
}

TEST(QpStateTableTest, RunningQpMayChangeAccessAndRnrTimer) {
  EXPECT_TRUE(
      CheckTransition(QpState::kRts, QpState::kRts, kQpAttrAccessFlags | kQpAttrMinRnrTimer).ok());
  EXPECT_FALSE(CheckTransition(QpState::kRts, QpState::kRts, kQpAttrPort).ok());
}

}  // namespace
}  // namespace qpbroker::core
