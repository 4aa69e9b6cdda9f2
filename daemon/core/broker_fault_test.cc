// SPDX-License-Identifier: Apache-2.0
//
// Fault sweep: for each operation, the n-th call to the kernel or to a port fails, for n = 1, 2, 3
// ... until the operation succeeds. After each failure nothing may be left of it, the books
// balance, no descriptor leaks, and the same operation then works.
#include <dirent.h>

#include <functional>

#include "daemon/core/testing/broker_fixture.h"

namespace qpbroker::core {
namespace {

size_t CountFds() {
  size_t count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

class BrokerFaultTest : public BrokerFixture {
 protected:
  using Operation = std::function<absl::Status()>;
  using Inject = std::function<void(int n)>;

  std::vector<std::pair<std::string, Inject>> Injectors() {
    return {
        {"verbs ENOMEM", [this](int n) { FailVerbs(n, ENOMEM); }},
        {"verbs EIO", [this](int n) { FailVerbs(n, EIO); }},
        {"verbs EINVAL", [this](int n) { FailVerbs(n, EINVAL); }},
        {"pipe2", [this](int n) { leases_.FailNth(n); }},
        {"domain file", [this](int n) { files_.FailNth(n); }},
        {"delivery", [this](int n) { delivery_.FailNth(n); }},
    };
  }

  void FailVerbs(int n, int errno_value) {
    kernel_.ClearFaults();
    if (n > 0) kernel_.FailNthCall(n, errno_value);
  }

  // Sweeps `operation`, which leaves nothing behind in whatever way it ends, over every injector.
  void Sweep(const Operation& operation) {
    ASSERT_TRUE(operation().ok()) << "without any fault: " << operation();
    Settle();
    const size_t fds = CountFds();
    const size_t qps = kernel_.qps();
    const size_t xrcds = kernel_.xrcds();
    for (auto& [name, inject] : Injectors()) {
      int n = 1;
      for (;; ++n) {
        ASSERT_LT(n, 100) << name << ": the operation never succeeds";
        inject(n);
        absl::Status status = operation();
        const bool port_failed = leases_.failed() || files_.failed() || delivery_.failed();
        EXPECT_FALSE(status.ok() && port_failed) << name << " " << n << ": the caller is not told";
        inject(0);
        Settle();
        EXPECT_EQ(kernel_.qps(), qps) << name << " " << n;
        EXPECT_EQ(kernel_.xrcds(), xrcds) << name << " " << n;
        EXPECT_EQ(CountFds(), fds) << name << " " << n;
        ExpectBooksBalance();
        if (HasFailure()) return;
        absl::Status retried = operation();
        EXPECT_TRUE(retried.ok()) << name << " " << n << ": " << retried;
        Settle();
        if (status.ok() && n > most_calls_) break;
      }
    }
  }

  // Everybody lets go, and what lingers is tried again.
  void Settle() {
    for (const auto& [uid, caller] : callers_) delivery_.Drop(*caller.session);
    CollectDead();
    broker_->ProbeLingering();
    executor_.RunAll();
  }

  int most_calls_ = 12;
};

TEST_F(BrokerFaultTest, OpenXrcd) {
  As(kAlice);
  Sweep([this] { return OpenXrcd(kAlice, DomainCall()).status(); });
}

TEST_F(BrokerFaultTest, CreateQp) {
  auto domain = OpenXrcd(kAlice, DomainCall());
  Delivered held = Take(kAlice);
  Sweep([this] { return CreateQp(kAlice, QpCall()).status(); });
}

TEST_F(BrokerFaultTest, CreateQpOfDomainLife) {
  auto domain = OpenXrcd(kAlice, DomainCall());
  Delivered held = Take(kAlice);
  Sweep([this] {
    CreateQpCall call = QpCall();
    call.life = QpLife::kDomain;
    auto created = CreateQp(kAlice, call);
    if (!created.ok()) return created.status();
    // A destroy that fails leaves the QP lingering, and Settle tries it again.
    return DestroyQp(kAlice, NameOf(created->qp.number)).status();
  });
}

TEST_F(BrokerFaultTest, OpenQp) {
  auto domain = OpenXrcd(kAlice, DomainCall());
  Delivered held_domain = Take(kAlice);
  auto created = CreateQp(kAlice, QpCall());
  Delivered held_qp = Take(kAlice);
  const uint32_t number = created->qp.number;
  As(kBob);
  Sweep([this, number] { return OpenQp(kBob, OpenCall(number)).status(); });
  EXPECT_EQ(OnlyQp().leases, 1u);
}

TEST_F(BrokerFaultTest, ReuseOfAQpByItsKey) {
  auto domain = OpenXrcd(kAlice, DomainCall());
  Delivered held_domain = Take(kAlice);
  auto created = CreateQp(kAlice, QpCall("a0"));
  Delivered held_qp = Take(kAlice);
  As(kBob);
  Sweep([this] { return CreateQp(kBob, QpCall("a0")).status(); });
  EXPECT_EQ(OnlyQp().leases, 1u);
}

TEST_F(BrokerFaultTest, ConnectModifyAndQuery) {
  auto domain = OpenXrcd(kAlice, DomainCall());
  Delivered held_domain = Take(kAlice);
  auto created = CreateQp(kAlice, QpCall());
  Delivered held_qp = Take(kAlice);
  ConnectQpCall connect;
  connect.qp = NameOf(created->qp.number);
  connect.remote_qp_num = 0x4711;
  connect.path.av.dlid = 7;
  ModifyQpCall reset{connect.qp, {}};
  reset.change.mask = verbs::kQpAttrState;
  reset.change.attributes.state = verbs::QpState::kReset;
  Sweep([&] {
    if (absl::Status status = ConnectQp(kAlice, connect).status(); !status.ok()) return status;
    if (absl::Status status = QueryQp(kAlice, connect.qp).status(); !status.ok()) return status;
    return ModifyQp(kAlice, reset).status();
  });
}

// The same, with the QP's name taken while its destruction fails at every possible place.
TEST_F(BrokerFaultTest, DestroyQp) {
  auto domain = OpenXrcd(kAlice, DomainCall());
  Delivered held = Take(kAlice);
  Sweep([this] {
    auto created = CreateQp(kAlice, QpCall("a0"));
    if (!created.ok()) return created.status();
    absl::Status destroyed = DestroyQp(kAlice, NameOf(created->qp.number)).status();
    return destroyed;
  });
}

// A client is killed between any two steps of its job: what it had goes, nothing else.
TEST_F(BrokerFaultTest, ClientKilledAtEachPoint) {
  auto domain = OpenXrcd(kAlice, DomainCall());
  Delivered held = Take(kAlice);
  for (size_t steps = 0; steps < 12; ++steps) {
    std::optional<absl::StatusOr<CreateQpAnswer>> answer;
    broker_->CreateQp(As(kBob), QpCall(), [&](auto result) { answer = std::move(result); });
    for (size_t i = 0; i < steps; ++i) executor_.RunOne();
    broker_->EndSession(*As(kBob).session);
    delivery_.Drop(*As(kBob).session);
    executor_.RunAll();
    delivery_.Drop(*As(kBob).session);
    callers_.erase(kBob);
    CollectDead();
    EXPECT_TRUE(answer.has_value());
    EXPECT_EQ(kernel_.qps(), 0u) << steps;
    ExpectBooksBalance();
  }
}

}  // namespace
}  // namespace qpbroker::core
