// SPDX-License-Identifier: Apache-2.0
//
// The daemon is killed, and the next one takes over: same names, same holders, same counts.
#include <poll.h>

#include <functional>
#include <vector>

#include "daemon/core/testing/broker_fixture.h"

namespace qpbroker::core {
namespace {

bool IsSilent(const UniqueFd& lease) {
  pollfd poll_fd{lease.get(), POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 0;
}

class BrokerRestoreTest : public BrokerFixture {
 protected:
  // Alice's domain and QP with key "a0", held by her and by Bob.
  void HoldAQp() {
    ASSERT_TRUE(OpenXrcd(kAlice, DomainCall()).ok());
    held_.push_back(Take(kAlice));
    auto created = CreateQp(kAlice, QpCall("a0"));
    ASSERT_TRUE(created.ok()) << created.status();
    number_ = created->qp.number;
    alices_lease_ = *created->lease;
    held_.push_back(Take(kAlice));
    ASSERT_TRUE(OpenQp(kBob, OpenCall(number_)).ok());
    held_.push_back(Take(kBob));
  }

  void LetGo() {
    held_.clear();
    CollectDead();
  }

  std::vector<Delivered> held_;
  uint32_t number_ = 0;
  LeaseId alices_lease_;
};

TEST_F(BrokerRestoreTest, SameNamesHoldersAndCounts) {
  HoldAQp();
  const Page<LeaseView> leases = broker_->ListLeases(Everything(), {});
  const QpView qp = OnlyQp();
  KillDaemon();
  const RestoreReport report = Restart();
  EXPECT_EQ(report.xrcds, 1u);
  EXPECT_EQ(report.qps, 1u);
  EXPECT_EQ(report.leases, 3u);
  EXPECT_EQ(report.differences, 0u) << journal_.lines[0];
  ExpectBooksBalance();

  const Page<LeaseView> after = broker_->ListLeases(Everything(), {});
  ASSERT_EQ(after.entries.size(), leases.entries.size());
  for (size_t i = 0; i < after.entries.size(); ++i) {
    EXPECT_EQ(after.entries[i].id, leases.entries[i].id);
    EXPECT_EQ(after.entries[i].uid, leases.entries[i].uid);
    EXPECT_EQ(after.entries[i].pid, leases.entries[i].pid);
    EXPECT_EQ(after.entries[i].qp_num, leases.entries[i].qp_num);
    EXPECT_EQ(after.entries[i].created, leases.entries[i].created);
  }
  EXPECT_EQ(OnlyQp().number, qp.number);
  EXPECT_EQ(OnlyQp().key, "a0");
  EXPECT_EQ(OnlyQp().leases, 2u);
  EXPECT_EQ(OnlyQp().creator, kAlice);
  EXPECT_EQ(OnlyQp().created, qp.created);
  for (const Delivered& held : held_) EXPECT_TRUE(IsSilent(held.lease));
  LetGo();
}

TEST_F(BrokerRestoreTest, WhatWasGrantedBeforeCanBeUsedAndClosed) {
  HoldAQp();
  KillDaemon();
  Restart();
  EXPECT_TRUE(QueryQp(kBob, NameOf(number_)).ok());
  auto found = CreateQp(kBob, QpCall("a0"));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->qp.number, number_);
  EXPECT_FALSE(found->created);
  held_.push_back(Take(kBob));
  auto left = broker_->CloseQp(As(kAlice), NameOf(alices_lease_));
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(*left, 2u);
  EXPECT_EQ(Why(broker_->CloseQp(As(kAlice), NameOf(alices_lease_))), "LEASE_NOT_FOUND");
  LetGo();
}

TEST_F(BrokerRestoreTest, IdsOfAnEarlierLifeAreNeverGivenAgain) {
  HoldAQp();
  const Page<LeaseView> before = broker_->ListLeases(Everything(), {});
  LetGo();
  KillDaemon();
  Restart();
  HoldAQp();
  for (const LeaseView& lease : broker_->ListLeases(Everything(), {}).entries) {
    for (const LeaseView& old : before.entries) EXPECT_NE(lease.id, old.id);
  }
  LetGo();
}

TEST_F(BrokerRestoreTest, AHolderThatDiedMeanwhileCountsNoMore) {
  HoldAQp();
  KillDaemon();
  held_.pop_back();
  const RestoreReport report = Restart();
  EXPECT_EQ(report.ended_leases, 1u);
  EXPECT_EQ(report.differences, 0u);
  EXPECT_EQ(OnlyQp().leases, 1u);
  ExpectBooksBalance();
  LetGo();
}

TEST_F(BrokerRestoreTest, NothingIsLeftIfAllHoldersDiedMeanwhile) {
  HoldAQp();
  KillDaemon();
  held_.clear();
  Restart();
  EXPECT_EQ(kernel_.qps(), 0u);
  EXPECT_EQ(kernel_.xrcds(), 0u);
  EXPECT_EQ(files_.files(), 0);
  EXPECT_EQ(keeper_.entries().size(), 1u);  // The device.
}

TEST_F(BrokerRestoreTest, AnOrphanInTheKernelGoesWithTheOldContext) {
  HoldAQp();
  // Killed between the creation in the kernel and the message to the keeper.
  keeper_.Deafen();
  auto created = CreateQp(kAlice, QpCall("orphan"));
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(kernel_.qps(), 2u);
  KillDaemon();
  Restart();
  EXPECT_EQ(kernel_.qps(), 1u);
  EXPECT_EQ(OnlyQp().key, "a0");
  LetGo();
}

TEST_F(BrokerRestoreTest, ARepeatedRequestGetsTheSameAnswer) {
  OpenXrcdCall domain = DomainCall();
  ASSERT_TRUE(OpenXrcd(kAlice, domain).ok());
  held_.push_back(Take(kAlice));
  CreateQpCall create = QpCall("a0");
  auto created = CreateQp(kAlice, create);
  held_.push_back(Take(kAlice));
  CreateQpCall create_kept = QpCall("kept");
  create_kept.life = QpLife::kDomain;
  auto kept = CreateQp(kAlice, create_kept);
  ASSERT_TRUE(kept.ok());
  KillDaemon();
  Restart();

  auto again = CreateQp(kAlice, create);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->lease, created->lease);
  EXPECT_TRUE(again->created);
  Delivered copy = Take(kAlice);
  auto kept_again = CreateQp(kAlice, create_kept);
  ASSERT_TRUE(kept_again.ok()) << kept_again.status();
  EXPECT_EQ(kept_again->qp.number, kept->qp.number);
  EXPECT_TRUE(kept_again->created);
  create.key = "other";
  create.request.fingerprint = 99;
  EXPECT_EQ(Why(CreateQp(kAlice, create)), "REQUEST_ID_REUSED");
  LetGo();
}

TEST_F(BrokerRestoreTest, WhatWasDestroyedTakesNoOpensAfterwards) {
  HoldAQp();
  ASSERT_TRUE(DestroyQp(kAlice, NameOf(number_)).ok());
  ASSERT_TRUE(broker_->DestroyXrcd(As(kAlice), DomainName()).ok());
  KillDaemon();
  Restart();
  EXPECT_TRUE(OnlyQp().destroyed);
  EXPECT_EQ(Why(OpenXrcd(kAlice,
                         [&] {
                           OpenXrcdCall call = DomainCall();
                           call.create = false;
                           return call;
                         }())),
            "XRCD_NOT_FOUND");
  ExpectBooksBalance();
  LetGo();
}

TEST_F(BrokerRestoreTest, APersistentDomainAndItsQpsLiveOnWithoutLeases) {
  OpenXrcdCall domain = DomainCall();
  domain.life = XrcdLife::kPersistent;
  ASSERT_TRUE(OpenXrcd(kAlice, domain).ok());
  CreateQpCall create = QpCall("a0");
  create.life = QpLife::kDomain;
  ASSERT_TRUE(CreateQp(kAlice, create).ok());
  delivery_.DropAll();
  CollectDead();
  KillDaemon();
  Restart();
  EXPECT_EQ(OnlyQp().key, "a0");
  EXPECT_EQ(kernel_.qps(), 1u);
  ASSERT_TRUE(broker_->DestroyXrcd(As(kAlice), DomainName()).ok());
  executor_.RunAll();
}

TEST_F(BrokerRestoreTest, ALowerQuotaRevokesNothing) {
  HoldAQp();
  KillDaemon();
  const RestoreReport report = Restart({10, 10, 1, 0, 0});
  EXPECT_EQ(report.leases, 3u);
  ExpectBooksBalance();
  EXPECT_EQ(Why(OpenQp(kAlice, OpenCall(number_))), "QUOTA_EXCEEDED");
  LetGo();
}

TEST_F(BrokerRestoreTest, SeveralLivesInARow) {
  HoldAQp();
  for (int i = 0; i < 5; ++i) {
    KillDaemon();
    const RestoreReport report = Restart();
    EXPECT_EQ(report.leases, held_.size());
    EXPECT_EQ(report.differences, 0u);
    auto opened = OpenQp(kBob, OpenCall(number_));
    ASSERT_TRUE(opened.ok()) << opened.status();
    held_.push_back(Take(kBob));
    ExpectBooksBalance();
  }
  LetGo();
}

// ---- What the keeper has is not what the kernel has.

TEST_F(BrokerRestoreTest, LeasesOfADeviceThatIsGoneAreRevoked) {
  HoldAQp();
  KillDaemon();
  kernel_.RemoveDevice("fake0");
  kernel_.AddDevice({.name = "fake0"});
  const RestoreReport report = Restart();
  EXPECT_EQ(report.leases, 0u);
  EXPECT_EQ(report.revoked_leases, 3u);
  for (const Delivered& held : held_) {
    EventRecord record;
    ASSERT_EQ(read(held.lease.get(), &record, sizeof(record)),
              static_cast<ssize_t>(sizeof(record)));
    EXPECT_EQ(record.kind, EventKind::kRevoked);
    EXPECT_EQ(read(held.lease.get(), &record, sizeof(record)), 0);
  }
  ExpectBooksBalance();
}

TEST_F(BrokerRestoreTest, AQpWhoseRecordIsLostIsFoundByItsLeases) {
  HoldAQp();
  KillDaemon();
  for (auto& [id, kept] : keeper_.entries()) {
    if (kept.record.has_qp()) kept.record.Clear();
  }
  const RestoreReport report = Restart();
  EXPECT_EQ(report.leases, 3u);
  EXPECT_EQ(report.revoked_leases, 0u);
  EXPECT_EQ(OnlyQp().number, number_);
  EXPECT_EQ(OnlyQp().leases, 2u);
  ExpectBooksBalance();
  LetGo();
}

TEST_F(BrokerRestoreTest, OnlyTheLeaseWithoutMeaningIsLost) {
  HoldAQp();
  KillDaemon();
  for (auto& [id, kept] : keeper_.entries()) {
    if (kept.record.has_lease() && kept.record.lease().uid() == kBob) kept.record.Clear();
  }
  const RestoreReport report = Restart();
  EXPECT_EQ(report.leases, 2u);
  EXPECT_EQ(report.differences, 1u);
  EXPECT_EQ(OnlyQp().leases, 1u);
  ExpectBooksBalance();
  LetGo();
}

// Every record spoiled in every field: the books balance whatever it says, and nobody else loses
// anything that does not hang on it.
TEST_F(BrokerRestoreTest, NoRecordCanBreakTheBooks) {
  HoldAQp();
  const size_t entries = keeper_.entries().size();
  for (size_t spoiled = 0; spoiled < entries; ++spoiled) {
    for (int field = 0; field < 12; ++field) {
      KillDaemon();
      auto entry = std::next(keeper_.entries().begin(), static_cast<ptrdiff_t>(spoiled));
      keeper::v1::Record& record = entry->second.record;
      const keeper::v1::Record good = record;
      const google::protobuf::Descriptor* outer = record.GetDescriptor();
      const auto* which =
          record.GetReflection()->GetOneofFieldDescriptor(record, outer->FindOneofByName("record"));
      google::protobuf::Message* inner = record.GetReflection()->MutableMessage(&record, which);
      if (field < inner->GetDescriptor()->field_count()) {
        inner->GetReflection()->ClearField(inner, inner->GetDescriptor()->field(field));
      }
      // The clients' ends stay open: what is revoked only by mistake would be missed.
      Restart();
      ExpectBooksBalance();
      EXPECT_LE(kernel_.qps(), 1u);
      LetGo();
      EXPECT_EQ(kernel_.qps(), 0u) << good.ShortDebugString();
      HoldAQp();
      ASSERT_EQ(keeper_.entries().size(), entries);
    }
  }
  LetGo();
}

// ---- The daemon dies between any two of its steps.

using Step = std::function<void()>;

// Kills the daemon after its n-th message to the keeper, for every n, and after every task of the
// executor, in the course of `job`; all clients live on.
class BrokerCrashTest : public BrokerRestoreTest {
 protected:
  void ExpectTruth() {
    ExpectBooksBalance();
    std::map<std::string, size_t> open;
    CollectDead();
    EXPECT_EQ(broker_->ListLeases(Everything(), {}).entries.size(), held_.size());
    EXPECT_EQ(broker_->ListQps(Everything(), {}).entries.size(), kernel_.qps());
    EXPECT_EQ(broker_->ListXrcds(Everything(), {}).entries.size(), kernel_.xrcds());
  }

  // What clients have received and still hold.
  void Receive(uid_t uid) {
    while (delivery_.waiting(*As(uid).session) > 0) held_.push_back(Take(uid));
  }

  void Job() {
    (void)OpenXrcd(kAlice, DomainCall());
    Receive(kAlice);
    auto created = CreateQp(kAlice, QpCall("a0"));
    Receive(kAlice);
    CreateQpCall other = QpCall("a1");
    other.life = QpLife::kDomain;
    auto lasting = CreateQp(kAlice, other);
    if (created.ok()) (void)OpenQp(kBob, OpenCall(created->qp.number));
    Receive(kBob);
    if (lasting.ok()) (void)DestroyQp(kAlice, NameOf(lasting->qp.number));
    if (!held_.empty()) {
      held_.pop_back();
      CollectDead();
    }
  }
};

TEST_F(BrokerCrashTest, AfterEachMessageToTheKeeper) {
  const int before = keeper_.messages();
  Job();
  const int messages = keeper_.messages() - before;
  ASSERT_GT(messages, 6);
  ExpectTruth();
  LetGo();
  for (int n = 0; n < messages; ++n) {
    keeper_.DeafenAfter(n);
    Job();
    KillDaemon();
    // A client can have what the keeper was never told of only if the daemon went on after its
    // death here: those that came later do not count.
    std::vector<Delivered> real;
    for (Delivered& held : held_) {
      for (const auto& [id, kept] : keeper_.entries()) {
        if (kept.record.has_lease() && kept.record.lease().id() == held.grant_id) {
          real.push_back(std::move(held));
          break;
        }
      }
    }
    held_ = std::move(real);
    const RestoreReport report = Restart();
    EXPECT_EQ(report.revoked_leases, 0u) << n;
    ExpectTruth();
    if (HasFailure()) FAIL() << "killed after message " << n;
    LetGo();
    EXPECT_EQ(kernel_.xrcds(), 0u) << n;
    EXPECT_EQ(keeper_.entries().size(), 1u) << n;
  }
}

}  // namespace
}  // namespace qpbroker::core
