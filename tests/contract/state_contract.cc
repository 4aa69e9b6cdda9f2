// SPDX-License-Identifier: Apache-2.0
// The states of a target QP: which changes are taken, and what Query says afterwards.

#include <array>

#include "tests/contract/contract.h"

namespace qpbroker::verbs {
namespace {

constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts,
                               QpState::kSqd,   QpState::kSqe,  QpState::kErr};

constexpr uint32_t kAttributes[] = {kQpAttrAccessFlags, kQpAttrPkeyIndex,      kQpAttrPort,
                                    kQpAttrAv,          kQpAttrPathMtu,        kQpAttrTimeout,
                                    kQpAttrRqPsn,       kQpAttrMinRnrTimer,    kQpAttrSqPsn,
                                    kQpAttrDestQpn,     kQpAttrMaxDestRdAtomic};

struct Transition {
  QpState from;
  QpState to;
  uint32_t required;
  uint32_t optional;
};

// All that an XRC target has, but the way out of SQE, where it never is.
constexpr Transition kTransitions[] = {
    {QpState::kReset, QpState::kReset, 0, 0},
    {QpState::kReset, QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags, 0},
    {QpState::kInit, QpState::kReset, 0, 0},
    {QpState::kInit, QpState::kErr, 0, 0},
    {QpState::kInit, QpState::kInit, 0, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags},
    {QpState::kInit, QpState::kRtr,
     kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic |
         kQpAttrMinRnrTimer,
     kQpAttrAccessFlags | kQpAttrPkeyIndex},
    {QpState::kRtr, QpState::kReset, 0, 0},
    {QpState::kRtr, QpState::kErr, 0, 0},
    {QpState::kRtr, QpState::kRts, kQpAttrTimeout | kQpAttrSqPsn,
     kQpAttrAccessFlags | kQpAttrMinRnrTimer},
    {QpState::kRts, QpState::kReset, 0, 0},
    {QpState::kRts, QpState::kErr, 0, 0},
    {QpState::kRts, QpState::kRts, 0, kQpAttrAccessFlags | kQpAttrMinRnrTimer},
    {QpState::kRts, QpState::kSqd, 0, 0},
    {QpState::kSqd, QpState::kReset, 0, 0},
    {QpState::kSqd, QpState::kErr, 0, 0},
    {QpState::kSqd, QpState::kRts, 0, kQpAttrAccessFlags | kQpAttrMinRnrTimer},
    {QpState::kSqd, QpState::kSqd, 0,
     kQpAttrPort | kQpAttrAv | kQpAttrTimeout | kQpAttrMaxDestRdAtomic | kQpAttrAccessFlags |
         kQpAttrPkeyIndex | kQpAttrMinRnrTimer},
    {QpState::kErr, QpState::kReset, 0, 0},
    {QpState::kErr, QpState::kErr, 0, 0},
};

const Transition* Find(QpState from, QpState to) {
  for (const Transition& transition : kTransitions) {
    if (transition.from == from && transition.to == to) return &transition;
  }
  return nullptr;
}

class StateContractTest : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (HasFatalFailure()) return;
    xrcd_ = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
    ASSERT_NE(xrcd_, nullptr);
    attributes_ = Attributes();
  }

  std::unique_ptr<TargetQp> QpIn(QpState state) {
    std::unique_ptr<TargetQp> qp = CreateQp(*xrcd_);
    absl::Status status = BringTo(*qp, state, attributes_);
    EXPECT_TRUE(status.ok()) << status;
    return qp;
  }

  QpState StateOf(TargetQp& qp) {
    auto attributes = qp.Query();
    EXPECT_TRUE(attributes.ok()) << attributes.status();
    return attributes.ok() ? attributes->state : QpState::kSqe;
  }

  // On a new QP, so that one case does not spoil the next.
  void ExpectTaken(QpState from, QpState to, uint32_t mask) {
    std::unique_ptr<TargetQp> qp = QpIn(from);
    QpAttributes attributes = attributes_;
    attributes.state = to;
    absl::Status status = qp->Modify(attributes, kQpAttrState | mask);
    EXPECT_TRUE(status.ok()) << "mask " << mask << ": " << status;
    EXPECT_EQ(StateOf(*qp), to) << "mask " << mask;
  }

  void ExpectRefused(QpState from, QpState to, uint32_t mask) {
    std::unique_ptr<TargetQp> qp = QpIn(from);
    QpAttributes attributes = attributes_;
    attributes.state = to;
    absl::Status status = qp->Modify(attributes, kQpAttrState | mask);
    EXPECT_TRUE(FailsWith(status, v1::REASON_INVALID_TRANSITION, "EINVAL")) << "mask " << mask;
    EXPECT_EQ(StateOf(*qp), from) << "mask " << mask;
  }

  std::unique_ptr<Xrcd> xrcd_;
  QpAttributes attributes_;
};

TEST_F(StateContractTest, TransitionsOfTheTableAreTakenWithAllTheyNeedAndMayCarry) {
  for (const Transition& transition : kTransitions) {
    SCOPED_TRACE(testing::Message() << int{static_cast<uint8_t>(transition.from)} << " to "
                                    << int{static_cast<uint8_t>(transition.to)});
    ExpectTaken(transition.from, transition.to, transition.required);
    ExpectTaken(transition.from, transition.to, transition.required | transition.optional);
  }
}

TEST_F(StateContractTest, TransitionsOfTheTableAreRefusedWithOneMissingOrOneTooMany) {
  for (const Transition& transition : kTransitions) {
    SCOPED_TRACE(testing::Message() << int{static_cast<uint8_t>(transition.from)} << " to "
                                    << int{static_cast<uint8_t>(transition.to)});
    for (uint32_t attribute : kAttributes) {
      if ((transition.required & attribute) != 0) {
        ExpectRefused(transition.from, transition.to, transition.required & ~attribute);
      } else if ((transition.optional & attribute) == 0) {
        ExpectRefused(transition.from, transition.to, transition.required | attribute);
      }
    }
  }
}

TEST_F(StateContractTest, TransitionsThatAreNotInTheTableAreRefused) {
  for (QpState from : kStates) {
    if (from == QpState::kSqe) continue;
    for (QpState to : kStates) {
      if (Find(from, to) != nullptr) continue;
      SCOPED_TRACE(testing::Message()
                   << int{static_cast<uint8_t>(from)} << " to " << int{static_cast<uint8_t>(to)});
      ExpectRefused(from, to, 0);
      if (to == QpState::kInit) ExpectRefused(from, to, kToInit);
      if (to == QpState::kRtr) ExpectRefused(from, to, kToRtr);
      if (to == QpState::kRts) ExpectRefused(from, to, kToRts);
    }
  }
}

TEST_F(StateContractTest, AttributesWithoutAStateChangeTheQpInItsState) {
  std::unique_ptr<TargetQp> qp = QpIn(QpState::kRts);
  QpAttributes attributes = attributes_;
  attributes.min_rnr_timer = 5;
  absl::Status status = qp->Modify(attributes, kQpAttrMinRnrTimer);
  EXPECT_TRUE(status.ok()) << status;
  auto now = qp->Query();
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_EQ(now->state, QpState::kRts);
  EXPECT_EQ(now->min_rnr_timer, 5);

  EXPECT_TRUE(
      FailsWith(qp->Modify(attributes, kQpAttrDestQpn), v1::REASON_INVALID_TRANSITION, "EINVAL"));
}

TEST_F(StateContractTest, AttributesOfOtherQpTypesAreRefused) {
  std::unique_ptr<TargetQp> qp = QpIn(QpState::kInit);
  constexpr uint32_t kQkey = 1u << 6, kRetryCount = 1u << 10, kMaxQpRdAtomic = 1u << 13;
  for (uint32_t foreign : {kQkey, kRetryCount, kMaxQpRdAtomic}) {
    QpAttributes attributes = attributes_;
    attributes.state = QpState::kRtr;
    EXPECT_TRUE(FailsWith(qp->Modify(attributes, kToRtr | foreign), v1::REASON_INVALID_TRANSITION,
                          "EINVAL"));
  }
}

TEST_F(StateContractTest, QueryReturnsWhatWasSet) {
  std::unique_ptr<TargetQp> qp = QpIn(QpState::kRts);
  auto now = qp->Query();
  ASSERT_TRUE(now.ok()) << now.status();
  constexpr uint32_t kRemote = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  EXPECT_EQ(now->state, QpState::kRts);
  EXPECT_EQ(now->access & kRemote, attributes_.access & kRemote);
  EXPECT_EQ(now->pkey_index, attributes_.pkey_index);
  EXPECT_EQ(now->port, attributes_.port);
  EXPECT_EQ(now->path_mtu, attributes_.path_mtu);
  EXPECT_EQ(now->timeout, attributes_.timeout);
  EXPECT_EQ(now->rq_psn, attributes_.rq_psn);
  EXPECT_EQ(now->sq_psn, attributes_.sq_psn);
  EXPECT_EQ(now->min_rnr_timer, attributes_.min_rnr_timer);
  EXPECT_EQ(now->max_dest_rd_atomic, attributes_.max_dest_rd_atomic);
  EXPECT_EQ(now->dest_qp_num, attributes_.dest_qp_num);
  EXPECT_EQ(now->av.dlid, attributes_.av.dlid);
  EXPECT_EQ(now->av.service_level, attributes_.av.service_level);
  EXPECT_EQ(now->av.port, attributes_.av.port);
  EXPECT_EQ(now->av.is_global, attributes_.av.is_global);
}

TEST_F(StateContractTest, AModifyByOneOpenerIsSeenByAllOthers) {
  auto other_device = OpenDevice();
  auto other_xrcd = OpenXrcd(*other_device, file_.fd(), OpenXrcdMode::kExisting);
  std::unique_ptr<TargetQp> created = CreateQp(*xrcd_);
  std::unique_ptr<TargetQp> opened = OpenQp(*other_xrcd, created->number());
  for (QpState state : {QpState::kInit, QpState::kReset, QpState::kRtr, QpState::kReset,
                        QpState::kRts, QpState::kErr, QpState::kReset}) {
    QpAttributes reset;
    ASSERT_TRUE(opened->Modify(reset, kQpAttrState).ok());
    EXPECT_EQ(StateOf(*created), QpState::kReset);
    absl::Status status = BringTo(*opened, state, attributes_);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(StateOf(*created), state);
    EXPECT_EQ(StateOf(*opened), state);
  }
}

TEST_F(StateContractTest, ValuesThatTheDeviceDoesNotHaveAreRefused) {
  auto ports = device_->QueryPorts();
  ASSERT_TRUE(ports.ok()) << ports.status();
  struct BadValue {
    const char* what;
    QpState from;
    uint32_t mask;
    v1::Reason reason;
    QpAttributes attributes;
  };
  auto bad = [&](const char* what, QpState from, uint32_t mask, v1::Reason reason, auto change) {
    BadValue value{what, from, mask, reason, attributes_};
    value.attributes.state = from == QpState::kReset ? QpState::kInit : QpState::kRtr;
    change(value.attributes);
    return value;
  };
  constexpr auto kInvalid = v1::REASON_INVALID_TRANSITION;
  const uint8_t beyond_ports = static_cast<uint8_t>(ports->size() + 1);
  const uint16_t beyond_pkeys = static_cast<uint16_t>(ports->front().pkeys.size());
  const BadValue kCases[] = {
      bad("port 0", QpState::kReset, kToInit, kInvalid, [](auto& a) { a.port = 0; }),
      bad("port", QpState::kReset, kToInit, kInvalid, [&](auto& a) { a.port = beyond_ports; }),
      bad("pkey_index", QpState::kReset, kToInit, kInvalid,
          [&](auto& a) { a.pkey_index = beyond_pkeys; }),
      bad("path port", QpState::kInit, kToRtr, kInvalid,
          [&](auto& a) { a.av.port = beyond_ports; }),
      bad("path port 0", QpState::kInit, kToRtr, kInvalid, [](auto& a) { a.av.port = 0; }),
      bad("path_mtu", QpState::kInit, kToRtr, v1::REASON_INVALID_FIELD,
          [](auto& a) { a.path_mtu = 1500; }),
      bad("rate", QpState::kInit, kToRtr, v1::REASON_INVALID_FIELD,
          [](auto& a) { a.av.rate_mbps = 14062; }),
  };
  for (const BadValue& value : kCases) {
    SCOPED_TRACE(value.what);
    std::unique_ptr<TargetQp> qp = QpIn(value.from);
    EXPECT_TRUE(FailsWith(qp->Modify(value.attributes, value.mask), value.reason, "EINVAL"));
    EXPECT_EQ(StateOf(*qp), value.from);
  }
  if (device_->info().max_dest_rd_atomic < 255) {
    std::unique_ptr<TargetQp> qp = QpIn(QpState::kInit);
    QpAttributes attributes = attributes_;
    attributes.state = QpState::kRtr;
    attributes.max_dest_rd_atomic = static_cast<uint8_t>(device_->info().max_dest_rd_atomic + 1);
    EXPECT_TRUE(FailsWith(qp->Modify(attributes, kToRtr), kInvalid, "EINVAL"));
  }
}

}  // namespace
}  // namespace qpbroker::verbs
