// SPDX-License-Identifier: Apache-2.0
//
// The life of domains, QPs and leases, rule by rule.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "daemon/core/testing/broker_fixture.h"

namespace qpbroker::core {
namespace {

class BrokerTest : public BrokerFixture {
 protected:
  bool HungUp(const UniqueFd& lease) {
    pollfd poll_fd{lease.get(), POLLIN, 0};
    return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLHUP) != 0;
  }
  std::vector<EventRecord> Events(const UniqueFd& lease) {
    std::vector<EventRecord> events;
    EventRecord record;
    while (read(lease.get(), &record, sizeof(record)) == sizeof(record)) events.push_back(record);
    return events;
  }
};

TEST_F(BrokerTest, OpenXrcdDeliversLeaseAndReadOnlyFile) {
  auto answer = OpenXrcd(kAlice, DomainCall());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->created);
  EXPECT_EQ(answer->xrcd.leases, 1u);
  Delivered got = Take(kAlice);
  EXPECT_EQ(got.grant_id, answer->lease.value());
  ASSERT_TRUE(got.lease);
  ASSERT_TRUE(got.xrcd);
  EXPECT_EQ(fcntl(got.xrcd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  ExpectBooksBalance();
}

TEST_F(BrokerTest, ClosingTheLastCopyOfTheLeaseReleasesTheDomain) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  Delivered got = Take(kAlice);
  UniqueFd copy(dup(got.lease.get()));
  got.lease.reset();
  CollectDead();
  EXPECT_EQ(kernel_.xrcds(), 1u) << "a copy is still open";
  copy.reset();
  CollectDead();
  EXPECT_EQ(kernel_.xrcds(), 0u);
  EXPECT_EQ(files_.files(), 0);
  EXPECT_TRUE(broker_->ListXrcds(Everything(), {}).entries.empty());
  ExpectBooksBalance();
}

TEST_F(BrokerTest, PersistentDomainOutlivesItsLeasesUntilItIsDestroyed) {
  OpenXrcdCall call = DomainCall();
  call.life = XrcdLife::kPersistent;
  ASSERT_TRUE(OpenXrcd(kAlice, call).ok());
  delivery_.DropAll();
  CollectDead();
  EXPECT_EQ(kernel_.xrcds(), 1u);
  auto destroyed = broker_->DestroyXrcd(As(kAlice), DomainName());
  ASSERT_TRUE(destroyed.ok()) << destroyed.status();
  EXPECT_TRUE(destroyed->existed);
  EXPECT_TRUE(destroyed->holders.empty());
  executor_.RunAll();
  EXPECT_EQ(kernel_.xrcds(), 0u);
  auto again = broker_->DestroyXrcd(As(kAlice), DomainName());
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->existed);
}

TEST_F(BrokerTest, DestroyedDomainNamesItsHoldersAndMakesRoomForANewOne) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  Delivered old = Take(kAlice);
  auto destroyed = broker_->DestroyXrcd(As(kAlice), DomainName());
  ASSERT_TRUE(destroyed.ok());
  ASSERT_EQ(destroyed->holders.size(), 1u);
  EXPECT_EQ(destroyed->holders[0].uid, kAlice);

  auto fresh = OpenXrcd(kAlice, DomainCall());
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_TRUE(fresh->created);
  Delivered got = Take(kAlice);
  struct stat old_stat, new_stat;
  ASSERT_EQ(fstat(old.xrcd.get(), &old_stat), 0);
  ASSERT_EQ(fstat(got.xrcd.get(), &new_stat), 0);
  EXPECT_NE(old_stat.st_ino, new_stat.st_ino) << "another domain for the kernel too";
  EXPECT_EQ(kernel_.xrcds(), 2u);
  ExpectBooksBalance();
}

TEST_F(BrokerTest, QpLivesAsLongAsItsHolders) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto created = CreateQp(kAlice, QpCall());
  ASSERT_TRUE(created.ok()) << created.status();
  const uint32_t number = created->qp.number;
  EXPECT_TRUE(created->created);
  EXPECT_NE(number & (1u << 23), 0u);
  EXPECT_EQ(created->endpoint.qp_num, number);
  ASSERT_TRUE(OpenQp(kBob, OpenCall(number)).ok());
  EXPECT_EQ(OnlyQp().leases, 2u);

  delivery_.Drop(*As(kAlice).session);  // SIGKILL of whoever asked for it.
  CollectDead();
  EXPECT_EQ(OnlyQp().leases, 1u);
  EXPECT_EQ(kernel_.qps(), 1u);
  ExpectBooksBalance();

  delivery_.Drop(*As(kBob).session);
  CollectDead();
  EXPECT_EQ(kernel_.qps(), 0u);
  EXPECT_EQ(kernel_.xrcds(), 0u) << "the domain had no lease of its own any more";
  ExpectBooksBalance();
}

TEST_F(BrokerTest, QpOfDomainLifeNeedsNoLease) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  Delivered domain = Take(kAlice);
  CreateQpCall call = QpCall("a0");
  call.life = QpLife::kDomain;
  auto created = CreateQp(kAlice, call);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_FALSE(created->lease.has_value());
  EXPECT_EQ(delivery_.waiting(*As(kAlice).session), 0u);
  CollectDead();
  EXPECT_EQ(kernel_.qps(), 1u);
  ExpectBooksBalance();

  domain = {};
  CollectDead();
  EXPECT_EQ(kernel_.qps(), 0u);
  EXPECT_EQ(kernel_.xrcds(), 0u);
}

TEST_F(BrokerTest, QpOfDomainLifeWaitsForItsOwnHolders) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  CreateQpCall call = QpCall("a0");
  call.life = QpLife::kDomain;
  auto created = CreateQp(kAlice, call);
  ASSERT_TRUE(created.ok());
  ASSERT_TRUE(OpenQp(kBob, OpenCall(created->qp.number)).ok());
  delivery_.Drop(*As(kAlice).session);
  CollectDead();
  EXPECT_EQ(kernel_.qps(), 1u);
  delivery_.Drop(*As(kBob).session);
  CollectDead();
  EXPECT_EQ(kernel_.qps(), 0u);
}

TEST_F(BrokerTest, SameKeyGivesTheSameQpAndSaysWhoMadeIt) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto first = CreateQp(kAlice, QpCall("a0"));
  auto second = CreateQp(kBob, QpCall("a0"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(first->created);
  EXPECT_FALSE(second->created);
  EXPECT_EQ(first->qp.number, second->qp.number);
  EXPECT_EQ(second->endpoint.psn, first->endpoint.psn);
  EXPECT_EQ(kernel_.qps(), 1u);

  CreateQpCall exclusive = QpCall("a0");
  exclusive.exclusive = true;
  EXPECT_EQ(Why(CreateQp(kBob, exclusive)), "QP_EXISTS");
}

TEST_F(BrokerTest, RaceForOneKeyHasOneWinner) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  std::vector<absl::StatusOr<CreateQpAnswer>> answers;
  for (uid_t uid : {kAlice, kBob, kAlice}) {
    broker_->CreateQp(As(uid), QpCall("a0"), [&](auto answer) { answers.push_back(answer); });
  }
  executor_.RunAll();
  ASSERT_EQ(answers.size(), 3u);
  int created = 0;
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer.ok()) << answer.status();
    created += answer->created ? 1 : 0;
    EXPECT_EQ(answer->qp.number, answers[0]->qp.number);
  }
  EXPECT_EQ(created, 1);
  EXPECT_EQ(kernel_.qps(), 1u);
  EXPECT_EQ(OnlyQp().leases, 3u);
  ExpectBooksBalance();
}

TEST_F(BrokerTest, RaceForOneDomainHasOneWinner) {
  std::vector<absl::StatusOr<OpenXrcdAnswer>> answers;
  OpenXrcdCall open = DomainCall();
  broker_->OpenXrcd(As(kAlice), DomainCall(), [&](auto answer) { answers.push_back(answer); });
  broker_->OpenXrcd(As(kAlice), DomainCall(), [&](auto answer) { answers.push_back(answer); });
  executor_.RunAll();
  ASSERT_EQ(answers.size(), 2u);
  ASSERT_TRUE(answers[0].ok() && answers[1].ok());
  EXPECT_NE(answers[0]->created, answers[1]->created);
  EXPECT_EQ(kernel_.xrcds(), 1u);
  ExpectBooksBalance();
}

TEST_F(BrokerTest, DestroyQpIsLikeUnlink) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto created = CreateQp(kAlice, QpCall("a0"));
  const uint32_t number = created->qp.number;
  auto opened = OpenQp(kBob, OpenCall(number));
  Delivered bobs = Take(kBob);
  auto destroyed = DestroyQp(kAlice, NameOf(number));
  ASSERT_TRUE(destroyed.ok()) << destroyed.status();
  EXPECT_EQ(destroyed->remaining_leases, 2u);
  EXPECT_EQ(Why(OpenQp(kBob, OpenCall(number))), "QP_NOT_FOUND");
  auto events = Events(bobs.lease);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kQpDestroyed);
  EXPECT_EQ(events[0].qp_num, number);
  EXPECT_EQ(kernel_.qps(), 1u);

  auto fresh = CreateQp(kAlice, QpCall("a0"));
  ASSERT_TRUE(fresh.ok());
  EXPECT_TRUE(fresh->created) << "the key is free again";
  bobs = {};
  delivery_.DropAll();
  CollectDead();
  EXPECT_EQ(kernel_.qps(), 0u);
  ExpectBooksBalance();
}

TEST_F(BrokerTest, HandleKeptByAnotherProcessMakesTheQpLinger) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  Delivered domain = Take(kAlice);
  auto created = CreateQp(kAlice, QpCall());
  verbs::FakeVerbs client(kernel_);
  auto device = client.OpenDevice("fake0");
  ASSERT_TRUE(device.ok());
  auto xrcd = (*device)->OpenXrcd(domain.xrcd.get(), verbs::OpenXrcdMode::kExisting);
  ASSERT_TRUE(xrcd.ok()) << xrcd.status();
  auto handle = (*xrcd)->OpenTargetQp(created->qp.number);
  ASSERT_TRUE(handle.ok()) << handle.status();

  auto destroyed = DestroyQp(kAlice, NameOf(created->qp.number));
  ASSERT_EQ(destroyed->remaining_leases, 1u);
  delivery_.DropAll();
  domain = {};
  CollectDead();
  EXPECT_TRUE(OnlyQp().lingering);
  EXPECT_EQ(Why(OpenQp(kAlice, OpenCall(created->qp.number))), "QP_NOT_FOUND");
  ExpectBooksBalance();

  broker_->ProbeLingering();
  executor_.RunAll();
  EXPECT_TRUE(OnlyQp().lingering);

  ASSERT_TRUE((*handle)->Destroy().ok());
  broker_->ProbeLingering();
  executor_.RunAll();
  EXPECT_TRUE(broker_->ListQps(Everything(), {}).entries.empty());
  EXPECT_TRUE(broker_->ListXrcds(Everything(), {}).entries.empty());
  EXPECT_EQ(kernel_.qps(), 0u);
  ExpectBooksBalance();
}

TEST_F(BrokerTest, CloseGivesAnAnswerAndHangsUp) {
  auto domain = OpenXrcd(kAlice, DomainCall());
  Delivered domain_fds = Take(kAlice);
  auto created = CreateQp(kAlice, QpCall());
  Delivered qp = Take(kAlice);
  auto opened = OpenQp(kBob, OpenCall(created->qp.number));

  EXPECT_EQ(*broker_->CloseQp(As(kAlice), NameOf(*created->lease)), 1u);
  EXPECT_TRUE(HungUp(qp.lease));
  EXPECT_EQ(Why(broker_->CloseQp(As(kAlice), NameOf(*created->lease))), "LEASE_NOT_FOUND");
  EXPECT_EQ(Why(broker_->CloseQp(As(kAlice), NameOf(opened->lease))), "LEASE_NOT_FOUND")
      << "Bob's lease is not Alice's to close";
  EXPECT_EQ(Why(broker_->CloseXrcd(As(kBob), NameOf(opened->lease))), "LEASE_NOT_FOUND")
      << "not a lease on a domain";
  EXPECT_EQ(*broker_->CloseXrcd(As(kAlice), NameOf(domain->lease)), 0u);
  EXPECT_EQ(*broker_->CloseQp(As(kBob), NameOf(opened->lease)), 0u);
  executor_.RunAll();
  EXPECT_EQ(kernel_.qps(), 0u);
  ExpectBooksBalance();
}

TEST_F(BrokerTest, NamesOfAnotherGenerationAreStale) {
  auto domain = OpenXrcd(kAlice, DomainCall());
  XrcdName stale = DomainName();
  stale.generation = Generation(1);
  CreateQpCall call = QpCall();
  call.xrcd = stale;
  EXPECT_EQ(Why(CreateQp(kAlice, call)), "STALE_GENERATION");
  EXPECT_EQ(Why(QueryQp(kAlice, {stale, 0x800001})), "STALE_GENERATION");
  EXPECT_EQ(Why(broker_->CloseXrcd(As(kAlice), {domain->lease, Generation(1)})),
            "STALE_GENERATION");
}

TEST_F(BrokerTest, ConnectGoesToRtsAndIsIdempotent) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto created = CreateQp(kAlice, QpCall());
  ConnectQpCall call;
  call.qp = NameOf(created->qp.number);
  call.remote_qp_num = 0x4711;
  call.remote_psn = 99;
  call.path.av.dlid = 7;
  auto connected = ConnectQp(kAlice, call);
  ASSERT_TRUE(connected.ok()) << connected.status();
  EXPECT_FALSE(connected->already_connected);
  EXPECT_EQ(connected->endpoint.psn, created->endpoint.psn);

  auto state = QueryQp(kBob, call.qp);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->attributes.state, verbs::QpState::kRts);
  EXPECT_EQ(state->attributes.dest_qp_num, 0x4711u);
  EXPECT_EQ(state->attributes.rq_psn, 99u);
  EXPECT_EQ(state->pkey, 0xffff);

  EXPECT_TRUE(ConnectQp(kBob, call)->already_connected);
  call.remote_qp_num = 0x4712;
  auto other = ConnectQp(kAlice, call);
  EXPECT_EQ(Why(other), "ALREADY_CONNECTED");
  EXPECT_EQ(ErrorInfoOf(other.status())->metadata().at("remote_qp_num"), "0x004711");
}

TEST_F(BrokerTest, ConnectGoesOnWhereAnEarlierAttemptStopped) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto created = CreateQp(kAlice, QpCall());
  ConnectQpCall call;
  call.qp = NameOf(created->qp.number);
  call.remote_qp_num = 0x4711;
  call.path.av.dlid = 7;
  for (int n = 1;; ++n) {
    kernel_.FailNthCall(n, ENOMEM);
    auto connected = ConnectQp(kAlice, call);
    kernel_.ClearFaults();
    if (connected.ok()) break;
    ASSERT_LT(n, 20);
  }
  EXPECT_EQ(QueryQp(kAlice, call.qp)->attributes.state, verbs::QpState::kRts);
}

TEST_F(BrokerTest, BadConnectionsAreRefusedByFieldBeforeTheDeviceChanges) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto created = CreateQp(kAlice, QpCall());
  ConnectQpCall good;
  good.qp = NameOf(created->qp.number);
  good.remote_qp_num = 0x4711;
  good.path.av.dlid = 7;
  auto field = [&](auto change) -> std::string {
    ConnectQpCall call = good;
    change(call);
    absl::Status status = ConnectQp(kAlice, call).status();
    return status.ok() ? "OK" : ErrorInfoOf(status)->metadata().at("field");
  };
  EXPECT_EQ(field([](auto& call) { call.pkey = 0x1234; }), "pkey");
  EXPECT_EQ(field([](auto& call) { call.port = 9; }), "port");
  EXPECT_EQ(field([](auto& call) { call.path.av.dlid = 0; }), "path.dlid");
  EXPECT_EQ(field([](auto& call) { call.max_dest_rd_atomic = 255; }), "max_dest_rd_atomic");
  EXPECT_EQ(field([](auto& call) {
              call.path.av.is_global = true;
              call.path.sgid = verbs::Gid{1, 2, 3};
            }),
            "path.global_route.sgid");
  EXPECT_EQ(QueryQp(kAlice, good.qp)->attributes.state, verbs::QpState::kReset);
}

TEST_F(BrokerTest, ModifyIsCheckedAgainstTheStateTable) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto created = CreateQp(kAlice, QpCall());
  ModifyQpCall call;
  call.qp = NameOf(created->qp.number);
  call.change.mask = verbs::kQpAttrState | verbs::kQpAttrPort | verbs::kQpAttrAccessFlags;
  call.change.attributes.state = verbs::QpState::kInit;
  call.change.attributes.port = 1;
  auto refused = ModifyQp(kAlice, call);
  EXPECT_EQ(Why(refused), "INVALID_TRANSITION");
  EXPECT_EQ(ErrorInfoOf(refused.status())->metadata().at("attribute"), "pkey");
  call.change.mask |= verbs::kQpAttrPkeyIndex;
  call.change.pkey = 0xffff;
  EXPECT_EQ(*ModifyQp(kAlice, call), verbs::QpState::kInit);
  EXPECT_EQ(QueryQp(kAlice, call.qp)->attributes.state, verbs::QpState::kInit);
}

TEST_F(BrokerTest, QpFatalReachesHoldersOfQpAndDomainOnly) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  Delivered domain = Take(kAlice);
  auto hit = CreateQp(kAlice, QpCall());
  Delivered hit_lease = Take(kAlice);
  auto other = CreateQp(kAlice, QpCall());
  Delivered other_lease = Take(kAlice);
  broker_->HandleDeviceEvent("fake0", {verbs::AsyncEventKind::kQpFatal, hit->qp.number, 0, 1});
  EXPECT_EQ(Events(hit_lease.lease).size(), 1u);
  EXPECT_EQ(Events(domain.lease).size(), 1u);
  EXPECT_TRUE(Events(other_lease.lease).empty());
}

TEST_F(BrokerTest, RemovedDeviceTellsHangsUpAndLeavesNothing) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  Delivered domain = Take(kAlice);
  auto created = CreateQp(kAlice, QpCall());
  Delivered qp = Take(kAlice);
  kernel_.RemoveDevice("fake0");
  broker_->RemoveDevice("fake0");
  executor_.RunAll();
  EXPECT_TRUE(HungUp(qp.lease));
  ASSERT_FALSE(Events(qp.lease).empty());
  EXPECT_EQ(kernel_.contexts(), 0u) << "the driver can unload";
  EXPECT_EQ(Why(OpenXrcd(kAlice, DomainCall())), "DEVICE_NOT_FOUND");
  ExpectBooksBalance();
}

TEST_F(BrokerTest, DeviceRemovedDuringCreationLeavesNothing) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  std::optional<absl::StatusOr<CreateQpAnswer>> answer;
  broker_->CreateQp(As(kAlice), QpCall(), [&](auto result) { answer = std::move(result); });
  broker_->RemoveDevice("fake0");
  executor_.RunAll();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(Why(*answer), "DEVICE_GONE");
  EXPECT_EQ(kernel_.qps(), 0u);
  ExpectBooksBalance();
}

TEST_F(BrokerTest, ShutdownRevokesEverything) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  auto created = CreateQp(kAlice, QpCall());
  Delivered domain = Take(kAlice);
  broker_->Shutdown();
  executor_.RunAll();
  auto events = Events(domain.lease);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kRevoked);
  EXPECT_TRUE(HungUp(domain.lease));
  EXPECT_EQ(kernel_.qps(), 0u);
  EXPECT_EQ(Why(OpenXrcd(kAlice, DomainCall())), "SHUTTING_DOWN");
}

TEST_F(BrokerTest, SlowDestroyDelaysNobodyElse) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  Delivered domain = Take(kAlice);
  auto slow = CreateQp(kAlice, QpCall());
  Delivered lease = Take(kAlice);
  executor_.Hold(1);  // The first QP's strand.
  lease = {};
  for (LeaseId id : leases_.WithoutHolder()) broker_->LeaseHolderGone(id);
  executor_.RunAll();
  EXPECT_EQ(kernel_.qps(), 1u) << "still being destroyed";
  auto other = CreateQp(kBob, QpCall());
  EXPECT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(Why(OpenQp(kBob, OpenCall(slow->qp.number))), "QP_NOT_FOUND");
  executor_.Unhold(1);
  executor_.RunAll();
  EXPECT_EQ(kernel_.qps(), 1u);
}

TEST_F(BrokerTest, ListsGoPageByPage) {
  ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(CreateQp(kAlice, QpCall(absl::StrCat("k", i))).ok());
  std::vector<std::string> keys;
  PageRequest page{2, 0};
  for (int pages = 0; pages < 10; ++pages) {
    auto got = broker_->ListDomainQps(As(kAlice), DomainName(), "k", page);
    ASSERT_TRUE(got.ok());
    for (const QpView& qp : got->entries) keys.push_back(qp.key);
    if (got->next_after == 0) break;
    page.after = got->next_after;
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"k0", "k1", "k2", "k3", "k4"}));
  EXPECT_EQ(broker_->ListDomainQps(As(kAlice), DomainName(), "k3", {})->entries.size(), 1u);
}

}  // namespace
}  // namespace qpbroker::core
