// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_TESTING_BROKER_FIXTURE_H_
#define QPBROKER_DAEMON_CORE_TESTING_BROKER_FIXTURE_H_

// A broker on a fake kernel with users who have sessions, for the broker's tests.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "daemon/core/broker.h"
#include "daemon/core/testing/fake_ports.h"
#include "daemon/verbs/fake_verbs.h"

namespace qpbroker::core {

inline constexpr uid_t kAlice = 1001;
inline constexpr uid_t kBob = 1002;
inline constexpr uid_t kMallory = 1666;
inline constexpr gid_t kJobGroup = 2000;

// The reason of a status or StatusOr, by name: what the tests compare.
inline std::string Why(const absl::Status& status) {
  return status.ok() ? "OK" : v1::Reason_Name(ReasonOf(status)).substr(7);
}
template <class T>
std::string Why(const absl::StatusOr<T>& result) {
  return Why(result.status());
}

class BrokerFixture : public testing::Test {
 protected:
  BrokerFixture() {
    kernel_.AddDevice({.name = "fake0"});
    Start({1000, 1000, 1000, 1000, 1000});
  }

  // Everything that was granted must be gone, without a trace, once nobody holds it.
  ~BrokerFixture() override {
    delivery_.DropAll();
    CollectDead();
    broker_->Shutdown();
    executor_.RunAll();
    for (const auto& [uid, caller] : callers_) broker_->EndSession(*caller.session);
    EXPECT_EQ(kernel_.qps(), other_qps_);
    EXPECT_EQ(files_.files(), 0);
    ExpectBooksBalance();
    broker_->RemoveDevice("fake0");
    executor_.RunAll();
    EXPECT_EQ(keeper_.entries().size(), 0u);
  }

  void Start(const QuotaLimits& quotas) {
    callers_.clear();
    if (broker_ != nullptr) {
      broker_->Shutdown();
      executor_.RunAll();
    }
    StartBroker(quotas, 0);
  }

  void StartBroker(const QuotaLimits& quotas, uint32_t life) {
    broker_ = std::make_unique<Broker>(
        BrokerOptions{Generation(0x5f0c2a9b11d4), life, quotas},
        BrokerPorts{&leases_, &files_, &delivery_, &keeper_, &executor_, &environment_, &journal_});
    absl::StatusOr<std::unique_ptr<verbs::Device>> device = verbs_.OpenDevice("fake0");
    ASSERT_TRUE(device.ok()) << device.status();
    broker_->AddDevice(*std::move(device));
  }

  // SIGKILL of the daemon: all that is left are the kernel, the clients and what the keeper has.
  void KillDaemon() {
    keeper_.Deafen();
    leases_.Mute(true);
    verbs_.Kill();
    for (const auto& [uid, caller] : callers_) {
      broker_->EndSession(*caller.session);
      delivery_.Drop(*caller.session);
    }
    callers_.clear();
    broker_->Shutdown();
    broker_->RemoveDevice("fake0");
    executor_.RunAll();
    broker_.reset();
    leases_.Mute(false);
  }

  // A new daemon takes over.
  RestoreReport Restart(const QuotaLimits& quotas = {1000, 1000, 1000, 1000, 1000}) {
    std::vector<KeptObject> kept = keeper_.TakeAll();
    StartBroker(quotas, ++lives_);
    RestoreReport report = broker_->Restore(std::move(kept));
    executor_.RunAll();
    return report;
  }

  // A caller with a session of its own, the same at each call.
  const Caller& As(uid_t uid) {
    auto found = callers_.find(uid);
    if (found != callers_.end()) return found->second;
    Caller caller;
    caller.identity = {uid, uid, {}, static_cast<pid_t>(uid) + 10000};
    if (uid == kAlice || uid == kBob) caller.identity.groups = {kJobGroup};
    const std::string nonce = absl::StrCat("nonce of ", uid);
    EXPECT_TRUE(broker_->BeginSession(caller.identity, nonce).ok());
    absl::StatusOr<SessionId> session = broker_->Attach(caller, nonce);
    EXPECT_TRUE(session.ok()) << session.status();
    caller.session = *session;
    return callers_.emplace(uid, caller).first->second;
  }

  // Runs an asynchronous call to its end.
  template <class Answer, class Start>
  absl::StatusOr<Answer> Await(const Start& start) {
    std::optional<absl::StatusOr<Answer>> result;
    start([&result](absl::StatusOr<Answer> answer) { result = std::move(answer); });
    executor_.RunAll();
    EXPECT_TRUE(result.has_value()) << "the call was never answered";
    return result.has_value() ? *std::move(result) : absl::InternalError("never answered");
  }

  RequestTag NewTag() { return {absl::StrCat("request-", ++tags_), 1}; }

  OpenXrcdCall DomainCall(uid_t owner = kAlice, const std::string& name = "job") {
    OpenXrcdCall call;
    call.key = {"fake0", owner, name};
    call.create = owner == kAlice;
    call.mode = 0660;
    call.gid = kJobGroup;
    call.request = NewTag();
    return call;
  }
  XrcdName DomainName(uid_t owner = kAlice, const std::string& name = "job") {
    return {{"fake0", owner, name}, std::nullopt};
  }
  CreateQpCall QpCall(const std::string& key = "") {
    CreateQpCall call;
    call.xrcd = DomainName();
    call.key = key;
    call.request = NewTag();
    return call;
  }
  OpenQpCall OpenCall(uint32_t number) {
    OpenQpCall call;
    call.xrcd = DomainName();
    call.number = number;
    call.request = NewTag();
    return call;
  }
  QpName NameOf(uint32_t number) { return {DomainName(), number}; }
  LeaseName NameOf(LeaseId id) { return {id, broker_->generation()}; }

  absl::StatusOr<OpenXrcdAnswer> OpenXrcd(uid_t uid, OpenXrcdCall call) {
    return Await<OpenXrcdAnswer>([&](Done<OpenXrcdAnswer> done) {
      broker_->OpenXrcd(As(uid), std::move(call), std::move(done));
    });
  }
  absl::StatusOr<CreateQpAnswer> CreateQp(uid_t uid, CreateQpCall call) {
    return Await<CreateQpAnswer>([&](Done<CreateQpAnswer> done) {
      broker_->CreateQp(As(uid), std::move(call), std::move(done));
    });
  }
  absl::StatusOr<OpenQpAnswer> OpenQp(uid_t uid, const OpenQpCall& call) {
    return broker_->OpenQp(As(uid), call);
  }
  absl::StatusOr<DestroyQpAnswer> DestroyQp(uid_t uid, const QpName& name) {
    return Await<DestroyQpAnswer>(
        [&](Done<DestroyQpAnswer> done) { broker_->DestroyQp(As(uid), name, std::move(done)); });
  }
  absl::StatusOr<ConnectQpAnswer> ConnectQp(uid_t uid, const ConnectQpCall& call) {
    return Await<ConnectQpAnswer>(
        [&](Done<ConnectQpAnswer> done) { broker_->ConnectQp(As(uid), call, std::move(done)); });
  }
  absl::StatusOr<verbs::QpState> ModifyQp(uid_t uid, const ModifyQpCall& call) {
    return Await<verbs::QpState>(
        [&](Done<verbs::QpState> done) { broker_->ModifyQp(As(uid), call, std::move(done)); });
  }
  absl::StatusOr<QueryQpAnswer> QueryQp(uid_t uid, const QpName& name) {
    return Await<QueryQpAnswer>(
        [&](Done<QueryQpAnswer> done) { broker_->QueryQp(As(uid), name, std::move(done)); });
  }

  // What `uid` got with its last grant.
  Delivered Take(uid_t uid) { return delivery_.Take(*As(uid).session); }

  // As the lease watcher does.
  void CollectDead() {
    for (LeaseId id : leases_.WithoutHolder()) broker_->LeaseHolderGone(id);
    executor_.RunAll();
  }

  void ExpectBooksBalance() {
    for (const std::string& broken : broker_->CheckInvariants()) ADD_FAILURE() << broken;
  }

  // The only QP, as the inspection sees it.
  QpView OnlyQp() {
    Page<QpView> page = broker_->ListQps(Everything(), {});
    EXPECT_EQ(page.entries.size(), 1u);
    return page.entries.empty() ? QpView{} : page.entries[0];
  }
  static Caller Everything() {
    Caller caller;
    caller.scope = Scope::kAll;
    return caller;
  }

  verbs::FakeKernel kernel_;
  verbs::FakeVerbs verbs_{kernel_};
  FakeLeasePort leases_;
  FakeDomainFilePort files_;
  FakeDeliveryPort delivery_;
  FakeKeeperPort keeper_;
  FakeExecutor executor_;
  FakeEnvironment environment_;
  FakeJournal journal_;
  std::unique_ptr<Broker> broker_;
  std::map<uid_t, Caller> callers_;
  size_t other_qps_ = 0;  // QPs that other processes keep at the end of a test.
  int tags_ = 0;
  uint32_t lives_ = 0;
};

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_TESTING_BROKER_FIXTURE_H_
