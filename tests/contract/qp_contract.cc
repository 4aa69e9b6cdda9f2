// SPDX-License-Identifier: Apache-2.0
// Handles of target QPs.

#include <algorithm>
#include <array>
#include <set>

#include "tests/contract/contract.h"

namespace qpbroker::verbs {
namespace {

TEST_F(ContractTest, ANewQpIsInResetUnderANumberOf24Bits) {
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
  std::set<uint32_t> numbers;
  std::vector<std::unique_ptr<TargetQp>> qps;
  for (int i = 0; i < 16; ++i) {
    qps.push_back(CreateQp(*xrcd));
    const uint32_t number = qps.back()->number();
    EXPECT_TRUE(numbers.insert(number).second) << number;
    EXPECT_NE(number, 0u);
    EXPECT_LT(number, 1u << 24);
    if (backend().numbers_have_xrc_bit) {
      EXPECT_NE(number & (1u << 23), 0u) << number;
    }
    auto attributes = qps.back()->Query();
    ASSERT_TRUE(attributes.ok()) << attributes.status();
    EXPECT_EQ(attributes->state, QpState::kReset);
  }
}

TEST_F(ContractTest, NumbersThatAreNotInTheDomainAreNotFound) {
  TempFile other_file;
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
  auto other_xrcd = OpenXrcd(*device_, other_file.fd(), OpenXrcdMode::kCreate);
  auto qp = CreateQp(*xrcd);
  auto other_qp = CreateQp(*other_xrcd);
  auto destroyed = CreateQp(*xrcd);
  const uint32_t destroyed_number = destroyed->number();
  EXPECT_TRUE(destroyed->Destroy().ok());
  for (uint32_t number : {0u, 1u, 1u << 23, 1u << 24, qp->number() | (1u << 24), 0xffffffffu,
                          other_qp->number(), destroyed_number}) {
    auto opened = xrcd->OpenTargetQp(number);
    EXPECT_TRUE(FailsWith(opened.status(), v1::REASON_QP_NOT_FOUND, "EINVAL")) << number;
  }
}

TEST_F(ContractTest, OpeningTwiceGivesTwoHandlesAndTheQpGoesWithTheLast) {
  auto other_device = OpenDevice();
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
  auto other_xrcd = OpenXrcd(*other_device, file_.fd(), OpenXrcdMode::kExisting);
  auto created = CreateQp(*xrcd);
  const uint32_t number = created->number();
  auto first = OpenQp(*other_xrcd, number);
  auto second = OpenQp(*other_xrcd, number);
  EXPECT_EQ(first->number(), number);
  EXPECT_EQ(second->number(), number);

  EXPECT_TRUE(created->Destroy().ok());
  EXPECT_TRUE(first->Query().ok());
  EXPECT_TRUE(first->Destroy().ok());
  EXPECT_TRUE(second->Query().ok());
  // Its creator's process may open it again.
  EXPECT_NE(OpenQp(*xrcd, number), nullptr);
  EXPECT_TRUE(second->Destroy().ok());
  EXPECT_TRUE(FailsWith(xrcd->OpenTargetQp(number).status(), v1::REASON_QP_NOT_FOUND, "EINVAL"));
}

TEST_F(ContractTest, DestroyingAHandleTwiceIsFineAndReleasesOnce) {
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
  auto created = CreateQp(*xrcd);
  auto opened = OpenQp(*xrcd, created->number());
  EXPECT_TRUE(opened->Destroy().ok());
  EXPECT_TRUE(opened->Destroy().ok());
  opened.reset();
  EXPECT_TRUE(created->Query().ok());
}

TEST_F(ContractTest, ADomainWithAQpOpenIsBusyAndStaysUsable) {
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
  auto qp = CreateQp(*xrcd);
  EXPECT_TRUE(FailsWith(xrcd->Close(), v1::REASON_XRCD_BUSY, "EBUSY"));
  EXPECT_NE(OpenQp(*xrcd, qp->number()), nullptr);
  EXPECT_TRUE(qp->Destroy().ok());
  EXPECT_TRUE(xrcd->Close().ok());
}

TEST_F(ContractTest, ADomainIsNotBusyWithAnotherHandlesQps) {
  auto other_device = OpenDevice();
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
  auto other_xrcd = OpenXrcd(*other_device, file_.fd(), OpenXrcdMode::kExisting);
  auto qp = CreateQp(*other_xrcd);
  EXPECT_TRUE(xrcd->Close().ok());
  EXPECT_TRUE(qp->Query().ok());
}

// A creator and an opener, each with a domain handle and a QP handle, close in every order. A
// domain handle is refused while its own QP handle is open, and closed after it; nothing else can
// go wrong.
class TeardownOrder {
 public:
  enum Part { kCreatorQp, kOpenerQp, kCreatorXrcd, kOpenerXrcd, kParts };

  TeardownOrder(std::unique_ptr<Xrcd> creator_xrcd, std::unique_ptr<Xrcd> opener_xrcd,
                std::unique_ptr<TargetQp> creator_qp, std::unique_ptr<TargetQp> opener_qp)
      : xrcds_{std::move(creator_xrcd), std::move(opener_xrcd)},
        qps_{std::move(creator_qp), std::move(opener_qp)} {}

  void Close(Part part) {
    if (part == kCreatorQp || part == kOpenerQp) {
      CloseQp(part - kCreatorQp);
    } else {
      CloseXrcd(part - kCreatorXrcd);
    }
  }

 private:
  void CloseQp(int side) {
    EXPECT_TRUE(qps_[side]->Query().ok());
    EXPECT_TRUE(qps_[side]->Destroy().ok());
    qp_closed_[side] = true;
    if (xrcd_refused_[side]) {
      EXPECT_TRUE(xrcds_[side]->Close().ok());
    }
  }

  void CloseXrcd(int side) {
    absl::Status status = xrcds_[side]->Close();
    if (qp_closed_[side]) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_TRUE(FailsWith(status, v1::REASON_XRCD_BUSY, "EBUSY"));
      xrcd_refused_[side] = true;
    }
  }

  std::array<std::unique_ptr<Xrcd>, 2> xrcds_;
  std::array<std::unique_ptr<TargetQp>, 2> qps_;
  std::array<bool, 2> qp_closed_ = {};
  std::array<bool, 2> xrcd_refused_ = {};
};

TEST_F(ContractTest, EveryOrderOfTearingDownLeavesNothing) {
  auto other_device = OpenDevice();
  std::array<int, TeardownOrder::kParts> order = {0, 1, 2, 3};
  do {
    SCOPED_TRACE(testing::PrintToString(order));
    auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive);
    ASSERT_NE(xrcd, nullptr);
    auto other_xrcd = OpenXrcd(*other_device, file_.fd(), OpenXrcdMode::kExisting);
    auto qp = CreateQp(*xrcd);
    auto other_qp = OpenQp(*other_xrcd, qp->number());
    TeardownOrder teardown(std::move(xrcd), std::move(other_xrcd), std::move(qp),
                           std::move(other_qp));
    for (int part : order) teardown.Close(static_cast<TeardownOrder::Part>(part));
    // The next round's exclusive create proves that the domain is gone.
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_NE(OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive), nullptr);
}

TEST_F(ContractTest, AQpLivesOnInACopyOfItsDeadCreatorsContext) {
  DeadCreator creator = backend().create_and_die(file_.fd());
  ASSERT_TRUE(creator.context_fd);
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kExisting);
  ASSERT_NE(xrcd, nullptr);
  auto qp = OpenQp(*xrcd, creator.qp_num);
  ASSERT_NE(qp, nullptr);
  // What was adopted needs the copy no longer.
  creator.context_fd.reset();
  EXPECT_TRUE(qp->Query().ok());
  EXPECT_TRUE(qp->Destroy().ok());
  EXPECT_TRUE(
      FailsWith(xrcd->OpenTargetQp(creator.qp_num).status(), v1::REASON_QP_NOT_FOUND, "EINVAL"));
}

TEST_F(ContractTest, AQpDiesWithItsCreatorAndTheLastCopyOfItsContext) {
  DeadCreator creator = backend().create_and_die(file_.fd());
  creator.context_fd.reset();
  auto xrcd = device_->OpenXrcd(file_.fd(), OpenXrcdMode::kExisting);
  EXPECT_TRUE(FailsWith(xrcd.status(), v1::REASON_XRCD_NOT_FOUND, "EAGAIN"));
}

TEST_F(ContractTest, DestructorsReleaseWhatWasNotClosed) {
  {
    auto other_device = OpenDevice();
    auto xrcd = OpenXrcd(*other_device, file_.fd(), OpenXrcdMode::kCreateExclusive);
    auto created = CreateQp(*xrcd);
    auto opened = OpenQp(*xrcd, created->number());
  }
  EXPECT_NE(OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive), nullptr);
}

}  // namespace
}  // namespace qpbroker::verbs
