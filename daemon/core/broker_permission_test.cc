// SPDX-License-Identifier: Apache-2.0
//
// Who may do what, and what a stranger can find out: nothing.
#include "daemon/core/testing/broker_fixture.h"

namespace qpbroker::core {
namespace {

class BrokerPermissionTest : public BrokerFixture {};

// Everything that a stranger tries on a domain, in whichever state it is, gives these answers.
std::string Denial(const absl::Status& status) { return status.ToString(); }

TEST_F(BrokerPermissionTest, StrangersGetTheSameAnswerWhetherOrNotItExists) {
  auto everything = [this](uint32_t number) {
    std::vector<std::string> answers;
    answers.push_back(Denial(OpenXrcd(kMallory, DomainCall(kAlice)).status()));
    OpenXrcdCall exclusive = DomainCall(kAlice);
    exclusive.exclusive = true;
    answers.push_back(Denial(OpenXrcd(kMallory, exclusive).status()));
    answers.push_back(Denial(CreateQp(kMallory, QpCall("a0")).status()));
    answers.push_back(Denial(OpenQp(kMallory, OpenCall(number)).status()));
    answers.push_back(Denial(QueryQp(kMallory, NameOf(number)).status()));
    answers.push_back(Denial(DestroyQp(kMallory, NameOf(number)).status()));
    answers.push_back(Denial(ModifyQp(kMallory, {NameOf(number), {}}).status()));
    ConnectQpCall connect;
    connect.qp = NameOf(number);
    answers.push_back(Denial(ConnectQp(kMallory, connect).status()));
    answers.push_back(Denial(broker_->ListDomainQps(As(kMallory), DomainName(), "", {}).status()));
    answers.push_back(Denial(broker_->DestroyXrcd(As(kMallory), DomainName()).status()));
    return answers;
  };
  const std::vector<std::string> nothing_there = everything(0x800001);
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto created = CreateQp(kAlice, QpCall("a0"));
  ASSERT_TRUE(created.ok());
  const std::vector<std::string> something_there = everything(created->qp.number);
  EXPECT_EQ(nothing_there, something_there);
  for (const std::string& answer : something_there) {
    EXPECT_NE(answer.find("PERMISSION_DENIED"), std::string::npos) << answer;
  }
  EXPECT_EQ(OnlyQp().leases, 1u);
  ExpectBooksBalance();
}

TEST_F(BrokerPermissionTest, ReadersMayOpenAndQueryWritersMayChange) {
  OpenXrcdCall call = DomainCall();
  call.mode = 0640;
  ASSERT_TRUE(OpenXrcd(kAlice, call).ok());
  auto created = CreateQp(kAlice, QpCall());
  const QpName name = NameOf(created->qp.number);
  EXPECT_TRUE(OpenXrcd(kBob, DomainCall()).ok());
  EXPECT_TRUE(OpenQp(kBob, OpenCall(created->qp.number)).ok());
  EXPECT_TRUE(QueryQp(kBob, name).ok());
  EXPECT_EQ(Why(CreateQp(kBob, QpCall())), "PERMISSION_DENIED");
  EXPECT_EQ(Why(DestroyQp(kBob, name)), "PERMISSION_DENIED");
  EXPECT_EQ(Why(ModifyQp(kBob, {name, {}})), "PERMISSION_DENIED");
  ConnectQpCall connect;
  connect.qp = name;
  EXPECT_EQ(Why(ConnectQp(kBob, connect)), "PERMISSION_DENIED");
  EXPECT_EQ(Why(broker_->DestroyXrcd(As(kBob), DomainName())), "PERMISSION_DENIED");
}

TEST_F(BrokerPermissionTest, ListedMembersComeInWithoutTheGroup) {
  OpenXrcdCall call = DomainCall();
  call.members = {kMallory};
  ASSERT_TRUE(OpenXrcd(kAlice, call).ok());
  EXPECT_TRUE(OpenXrcd(kMallory, DomainCall()).ok());
}

TEST_F(BrokerPermissionTest, NobodySquatsOnAnotherUsersNames) {
  OpenXrcdCall call = DomainCall(kAlice, "job");
  EXPECT_EQ(Why(OpenXrcd(kMallory, call)), "PERMISSION_DENIED");
  EXPECT_EQ(kernel_.xrcds(), 0u);
}

TEST_F(BrokerPermissionTest, GroupMustBeOneOfTheCallers) {
  OpenXrcdCall call = DomainCall();
  call.gid = 4242;
  absl::Status status = OpenXrcd(kAlice, call).status();
  EXPECT_EQ(Why(status), "PERMISSION_DENIED");
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("field"), "gid");
}

TEST_F(BrokerPermissionTest, RootOnTheApiSocketIsAnOrdinaryUser) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  EXPECT_EQ(Why(OpenXrcd(0, DomainCall())), "PERMISSION_DENIED");
  EXPECT_TRUE(broker_->ListXrcds(As(0), {}).entries.empty());
}

TEST_F(BrokerPermissionTest, InspectionShowsACallerOnlyWhatIsTheirs) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto created = CreateQp(kAlice, QpCall());
  ASSERT_TRUE(OpenQp(kBob, OpenCall(created->qp.number)).ok());
  As(kMallory);
  EXPECT_EQ(broker_->ListXrcds(As(kBob), {}).entries.size(), 1u) << "Bob may read it";
  EXPECT_EQ(broker_->ListLeases(As(kBob), {}).entries.size(), 1u) << "his own";
  EXPECT_EQ(broker_->ListLeases(As(kAlice), {}).entries.size(), 3u) << "all in her domain";
  EXPECT_EQ(broker_->ListSessions(As(kBob), {}).entries.size(), 1u);
  EXPECT_TRUE(broker_->ListXrcds(As(kMallory), {}).entries.empty());
  EXPECT_TRUE(broker_->ListQps(As(kMallory), {}).entries.empty());
  EXPECT_TRUE(broker_->ListLeases(As(kMallory), {}).entries.empty());
  EXPECT_EQ(broker_->ListSessions(Everything(), {}).entries.size(), 3u);
  EXPECT_EQ(broker_->ListLeases(Everything(), {}).entries.size(), 3u);
}

TEST_F(BrokerPermissionTest, AttachNeedsTheRightNonceOfTheRightUserOnce) {
  PeerCredentials alice{kAlice, kAlice, {}, 1};
  auto session = broker_->BeginSession(alice, "the nonce");
  ASSERT_TRUE(session.ok());
  Caller mallory{{kMallory, kMallory, {}, 2}, Scope::kOwn, {}};
  Caller caller{alice, Scope::kOwn, {}};
  EXPECT_EQ(Why(broker_->Attach(mallory, "the nonce")), "BAD_NONCE");
  EXPECT_EQ(Why(broker_->Attach(caller, "another")), "BAD_NONCE");
  EXPECT_EQ(Why(broker_->Attach(caller, "")), "BAD_NONCE");
  EXPECT_EQ(*broker_->Attach(caller, "the nonce"), *session);
  EXPECT_EQ(Why(broker_->Attach(caller, "the nonce")), "BAD_NONCE");
  caller.session = *session;
  EXPECT_EQ(Why(broker_->Attach(caller, "the nonce")), "ALREADY_ATTACHED");
  broker_->EndSession(*session);
}

TEST_F(BrokerPermissionTest, CallsThatDeliverNeedALivingSession) {
  Caller caller{{kAlice, kAlice, {kJobGroup}, 1}, Scope::kOwn, {}};
  EXPECT_EQ(Why(broker_->OpenQp(caller, OpenCall(0x800001))), "NOT_ATTACHED");
  auto session = broker_->BeginSession(caller.identity, "nonce");
  caller.session = *broker_->Attach(caller, "nonce");
  broker_->EndSession(*session);
  EXPECT_EQ(Why(broker_->OpenQp(caller, OpenCall(0x800001))), "SESSION_GONE");
}

TEST_F(BrokerPermissionTest, QuotasBindTheUserWhoIsToPay) {
  Start({1, 4, 2, 1, 1});
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  EXPECT_EQ(Why(OpenXrcd(kAlice, DomainCall(kAlice, "second"))), "QUOTA_EXCEEDED");
  auto created = CreateQp(kBob, QpCall());
  ASSERT_TRUE(created.ok()) << created.status();
  absl::Status refused = CreateQp(kBob, QpCall()).status();
  EXPECT_EQ(Why(refused), "QUOTA_EXCEEDED") << "QPs are the domain's owner's";
  EXPECT_EQ(ErrorInfoOf(refused)->metadata().at("quota"), "qps");
  ASSERT_TRUE(OpenQp(kBob, OpenCall(created->qp.number)).ok());
  refused = OpenQp(kBob, OpenCall(created->qp.number)).status();
  EXPECT_EQ(ErrorInfoOf(refused)->metadata().at("quota"), "leases");
  EXPECT_TRUE(OpenQp(kAlice, OpenCall(created->qp.number)).ok()) << "another user's quota";
  ExpectBooksBalance();
}

}  // namespace
}  // namespace qpbroker::core
