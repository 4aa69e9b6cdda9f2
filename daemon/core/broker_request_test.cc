// SPDX-License-Identifier: Apache-2.0
//
// Calls that are repeated with the same request_id.
#include "daemon/core/testing/broker_fixture.h"

namespace qpbroker::core {
namespace {

class BrokerRequestTest : public BrokerFixture {};

TEST_F(BrokerRequestTest, RepeatedOpenGivesTheSameLeaseAndItsDescriptorsOnceMore) {
  OpenXrcdCall call = DomainCall();
  auto first = OpenXrcd(kAlice, call);
  auto second = OpenXrcd(kAlice, call);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->lease, second->lease);
  EXPECT_TRUE(second->created) << "the same answer";
  EXPECT_EQ(second->xrcd.leases, 1u);
  Delivered one = Take(kAlice);
  Delivered two = Take(kAlice);
  EXPECT_EQ(one.grant_id, two.grant_id);
  ASSERT_TRUE(two.xrcd);

  one = {};
  CollectDead();
  EXPECT_EQ(kernel_.xrcds(), 1u) << "the second copy holds the same lease";
  two = {};
  CollectDead();
  EXPECT_EQ(kernel_.xrcds(), 0u);
  ExpectBooksBalance();
}

TEST_F(BrokerRequestTest, RepeatedOpenAndCreateOfQps) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  CreateQpCall create = QpCall();
  auto created = CreateQp(kAlice, create);
  auto again = CreateQp(kAlice, create);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(created->lease, again->lease);
  EXPECT_EQ(created->qp.number, again->qp.number);
  EXPECT_TRUE(again->created);
  EXPECT_EQ(kernel_.qps(), 1u);

  OpenQpCall open = OpenCall(created->qp.number);
  auto opened = OpenQp(kBob, open);
  auto reopened = OpenQp(kBob, open);
  ASSERT_TRUE(reopened.ok());
  EXPECT_EQ(opened->lease, reopened->lease);
  EXPECT_EQ(OnlyQp().leases, 2u);
  ExpectBooksBalance();
}

TEST_F(BrokerRequestTest, RepeatedCreateOfAQpWithoutLease) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  CreateQpCall create = QpCall();
  create.life = QpLife::kDomain;
  auto created = CreateQp(kAlice, create);
  auto again = CreateQp(kAlice, create);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(created->qp.number, again->qp.number);
  EXPECT_TRUE(again->created);
  EXPECT_EQ(kernel_.qps(), 1u);
  ExpectBooksBalance();
}

TEST_F(BrokerRequestTest, AnotherRequestWithTheSameIdIsRefused) {
  OpenXrcdCall call = DomainCall();
  ASSERT_TRUE(OpenXrcd(kAlice, call).ok());
  call.key.name = "another";
  call.request.fingerprint = 2;
  EXPECT_EQ(Why(OpenXrcd(kAlice, call)), "REQUEST_ID_REUSED");
}

TEST_F(BrokerRequestTest, IdsOfAnotherUserAreApart) {
  OpenXrcdCall alices = DomainCall();
  ASSERT_TRUE(OpenXrcd(kAlice, alices).ok());
  OpenXrcdCall bobs = DomainCall();
  bobs.request = alices.request;
  auto answer = OpenXrcd(kBob, bobs);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->xrcd.leases, 2u);
}

TEST_F(BrokerRequestTest, RepetitionWhileTheFirstIsUnderWay) {
  OpenXrcdCall call = DomainCall();
  std::optional<absl::StatusOr<OpenXrcdAnswer>> first, second;
  broker_->OpenXrcd(As(kAlice), call, [&](auto answer) { first = std::move(answer); });
  broker_->OpenXrcd(As(kAlice), call, [&](auto answer) { second = std::move(answer); });
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(Why(*second), "REQUEST_IN_PROGRESS");
  executor_.RunAll();
  EXPECT_TRUE(first->ok());
  ExpectBooksBalance();
}

TEST_F(BrokerRequestTest, IdIsFreeAgainOnceTheLeaseIsGone) {
  OpenXrcdCall call = DomainCall();
  auto first = OpenXrcd(kAlice, call);
  delivery_.DropAll();
  CollectDead();
  auto second = OpenXrcd(kAlice, call);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(first->lease, second->lease);
}

// The holder died, its lease was not yet taken back, and the same request came again.
TEST_F(BrokerRequestTest, RepetitionRevivesALeaseWhoseHolderJustWent) {
  OpenXrcdCall call = DomainCall();
  auto first = OpenXrcd(kAlice, call);
  delivery_.DropAll();
  std::vector<LeaseId> reported = leases_.WithoutHolder();
  ASSERT_EQ(reported.size(), 1u);
  auto second = OpenXrcd(kAlice, call);
  EXPECT_EQ(first->lease, second->lease);
  broker_->LeaseHolderGone(reported[0]);
  executor_.RunAll();
  EXPECT_EQ(kernel_.xrcds(), 1u) << "the report is out of date";
  delivery_.DropAll();
  CollectDead();
  EXPECT_EQ(kernel_.xrcds(), 0u);
}

TEST_F(BrokerRequestTest, SameIdForTwoKeysAtOnceGivesNobodyTheWrongQp) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  ASSERT_TRUE(CreateQp(kAlice, QpCall("a0")).ok());
  ASSERT_TRUE(CreateQp(kAlice, QpCall("b0")).ok());
  CreateQpCall a = QpCall("a0");
  CreateQpCall b = QpCall("b0");
  b.request = a.request;
  b.request.fingerprint = 2;
  std::optional<absl::StatusOr<CreateQpAnswer>> first, second;
  broker_->CreateQp(As(kBob), a, [&](auto answer) { first = std::move(answer); });
  broker_->CreateQp(As(kBob), b, [&](auto answer) { second = std::move(answer); });
  executor_.RunAll();
  ASSERT_TRUE(first->ok());
  EXPECT_EQ((*first)->qp.key, "a0");
  EXPECT_EQ(Why(*second), "REQUEST_ID_REUSED");
  ExpectBooksBalance();
}

}  // namespace
}  // namespace qpbroker::core
