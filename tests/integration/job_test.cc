// SPDX-License-Identifier: Apache-2.0
//
// What a client does, end to end on the fake device: each call, its answer, and what is left of it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "client/src/testing/fd_census.h"
#include "qpbroker/client.h"
#include "tests/support/test_daemon.h"

namespace qpbroker {
namespace {

using client::testing::Eventually;
using client::testing::FdCensus;
using client::testing::NothingIsOpenBeyond;
using testing::TestDaemon;

class JobTest : public ::testing::Test {
 protected:
  Client Connect() {
    Result<Client> client = Client::Connect({.runtime_dir = daemon_.runtime_dir()});
    EXPECT_TRUE(client.ok()) << client.error().ToString();
    return *std::move(client);
  }
  OpenXrcdOptions Domain() { return {.device = "fake0", .name = "job", .create = true}; }

  TestDaemon daemon_;
};

TEST_F(JobTest, WholeLifeOfADomainAndAQpLeavesNothing) {
  { Connect(); }  // gRPC opens what it keeps for good.
  const auto before = FdCensus();
  {
    Client client = Connect();
    EXPECT_EQ(client.WhoAmI()->uid, getuid());
    EXPECT_EQ(client.ListDevices()->at(0).name, "devices/fake0");
    Result<Xrcd> domain = client.OpenXrcd(Domain());
    ASSERT_TRUE(domain.ok()) << domain.error().ToString();
    Result<Qp> qp = client.CreateQp(domain->name(), {.key = "a0"});
    ASSERT_TRUE(qp.ok()) << qp.error().ToString();
    Result<Qp> again = client.OpenQp(domain->name(), "a0");
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    EXPECT_EQ(again->number(), qp->number());
    EXPECT_EQ(again->info().lease_count, 2u);

    ConnectQpOptions connect;
    connect.remote = {.qp_num = 0x4711, .psn = 5, .path = {.dlid = 7}};
    Result<ConnectedQp> connected = client.ConnectQp(qp->name(), connect);
    ASSERT_TRUE(connected.ok()) << connected.error().ToString();
    EXPECT_EQ(client.QueryQp(qp->name())->attributes.state, QpState::kRts);
    EXPECT_EQ(client.ListDomainQps(domain->name())->size(), 1u);

    EXPECT_EQ(*qp->Close(), 1u);
    EXPECT_EQ(*again->Close(), 0u);
    EXPECT_TRUE(Eventually([&] { return daemon_.kernel().qps() == 0; }));
    EXPECT_EQ(*domain->Close(), 0u);
  }
  EXPECT_TRUE(Eventually([&] { return daemon_.kernel().xrcds() == 0; }));
  EXPECT_TRUE(NothingIsOpenBeyond(before));
}

TEST_F(JobTest, LeasesOutliveTheClientThatGotThem) {
  std::optional<Xrcd> domain;
  std::optional<Qp> qp;
  {
    Client client = Connect();
    domain = *client.OpenXrcd(Domain());
    qp = *client.CreateQp(domain->name());
  }
  Client other = Connect();
  EXPECT_EQ(other.QueryQp(qp->name())->info.lease_count, 1u);
  qp.reset();
  EXPECT_TRUE(Eventually([&] { return daemon_.kernel().qps() == 0; }));
  EXPECT_EQ(daemon_.kernel().xrcds(), 1u);
  domain.reset();
  EXPECT_TRUE(Eventually([&] { return daemon_.kernel().xrcds() == 0; }));
}

TEST_F(JobTest, KilledHolderIsForgottenAndAStoppedOneIsNot) {
  Client client = Connect();
  Xrcd domain = *client.OpenXrcd(Domain());
  Qp qp = *client.CreateQp(domain.name());
  const int lease = qp.lease()->fd();
  // A process that holds copies of the leases, as after a fork.
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  qp = *client.OpenQp(domain.name(), qp.number());
  EXPECT_NE(lease, -1);
  EXPECT_EQ(client.QueryQp(qp.name())->info.lease_count, 2u) << "the child has a copy of the first";
  kill(child, SIGSTOP);
  EXPECT_EQ(client.QueryQp(qp.name())->info.lease_count, 2u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(Eventually([&] { return client.QueryQp(qp.name())->info.lease_count == 1; }));
}

TEST_F(JobTest, EventsComeByTheLease) {
  Client client = Connect();
  Xrcd domain = *client.OpenXrcd(Domain());
  Qp qp = *client.CreateQp(domain.name());
  daemon_.kernel().RaiseEvent("fake0", {verbs::AsyncEventKind::kQpFatal, qp.number(), 0, 1});
  Result<std::optional<Event>> event = qp.lease()->WaitEvent(std::chrono::seconds(20));
  ASSERT_TRUE(event.ok() && event->has_value());
  EXPECT_EQ((*event)->kind, Event::Kind::kQpError);
  EXPECT_EQ((*event)->qp_num, qp.number());
  event = domain.lease().WaitEvent(std::chrono::seconds(20));
  ASSERT_TRUE(event.ok() && event->has_value());
  EXPECT_EQ((*event)->kind, Event::Kind::kQpError);
}

TEST_F(JobTest, StoppingDaemonRevokesAndHangsUp) {
  Client client = Connect();
  Xrcd domain = *client.OpenXrcd(Domain());
  daemon_.Stop();
  EXPECT_EQ((*domain.lease().WaitEvent(std::chrono::seconds(20)))->kind, Event::Kind::kRevoked);
  EXPECT_EQ((*domain.lease().WaitEvent(std::chrono::seconds(20)))->kind, Event::Kind::kGone);
  Result<Identity> who = client.WhoAmI();
  EXPECT_EQ(who.error().reason, "DAEMON_UNREACHABLE");
}

TEST_F(JobTest, UnpluggedDeviceIsToldAndForgotten) {
  Client client = Connect();
  Xrcd domain = *client.OpenXrcd(Domain());
  Qp qp = *client.CreateQp(domain.name());
  daemon_.kernel().RemoveDevice("fake0");
  EXPECT_EQ((*qp.lease()->WaitEvent(std::chrono::seconds(20)))->kind, Event::Kind::kDeviceGone);
  EXPECT_EQ((*qp.lease()->WaitEvent(std::chrono::seconds(20)))->kind, Event::Kind::kGone);
  EXPECT_TRUE(Eventually([&] { return daemon_.kernel().contexts() == 0; }));
  EXPECT_EQ(client.OpenXrcd(Domain()).error().reason, "DEVICE_NOT_FOUND");
}

TEST_F(JobTest, ManyThreadsEachGetTheirOwn) {
  Client client = Connect();
  Xrcd domain = *client.OpenXrcd(Domain());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        // A key of its own each time: the one before is free only once its QP's last lease was seen
        // to go.
        const std::string key = "k" + std::to_string(t) + "-" + std::to_string(i);
        Result<Qp> qp = client.CreateQp(domain.name(), {.key = key});
        ASSERT_TRUE(qp.ok()) << qp.error().ToString();
        Result<QpStatus> status = client.QueryQp(qp->name());
        ASSERT_TRUE(status.ok()) << status.error().ToString();
        EXPECT_EQ(status->info.key, key);
        EXPECT_EQ(status->info.lease_count, 1u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return daemon_.kernel().qps() == 0; }));
}

TEST_F(JobTest, ManyConnectionsComeAndGoWithoutATrace) {
  { Connect(); }
  const auto before = FdCensus();
  for (int i = 0; i < 200; ++i) {
    Client client = Connect();
    EXPECT_TRUE(client.WhoAmI().ok());
  }
  EXPECT_TRUE(NothingIsOpenBeyond(before));
}

}  // namespace
}  // namespace qpbroker
