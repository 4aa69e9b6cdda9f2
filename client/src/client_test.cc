// SPDX-License-Identifier: Apache-2.0
// The whole library against a daemon in this process that does what it should.
#include "qpbroker/client.h"

#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/src/testing/client_fixture.h"
#include "client/src/testing/fd_census.h"
#include "client/src/testing/grant_fds.h"
#include "gtest/gtest.h"

namespace qpbroker {
namespace {

using client::testing::ContentOf;
using client::testing::FdCensus;
using client::testing::NothingIsOpenBeyond;
using std::chrono::milliseconds;

using ClientTest = client::testing::ClientFixture;

TEST_F(ClientTest, EveryCallGoesThrough) {
  Client client = Connect();
  Result<Identity> me = client.WhoAmI();
  ASSERT_TRUE(me.ok()) << me.error().ToString();
  EXPECT_EQ(me->uid, getuid());

  Result<std::vector<Device>> devices = client.ListDevices();
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 2u);  // Of two pages.
  EXPECT_EQ((*devices)[1].name, "devices/vhca1");

  Result<Xrcd> domain = client.OpenXrcd({.device = "vhca0", .name = "job-7", .create = true});
  ASSERT_TRUE(domain.ok()) << domain.error().ToString();
  EXPECT_EQ(domain->name(), "devices/vhca0/xrcds/0/job-7@5f0c2a9b11d4");
  EXPECT_TRUE(domain->created());
  EXPECT_EQ(ContentOf(domain->domain_fd()), "job-7");
  EXPECT_EQ(domain->lease().name(), "leases/1@5f0c2a9b11d4");

  Result<Qp> qp = client.CreateQp(domain->name(), {.key = "a0"});
  ASSERT_TRUE(qp.ok()) << qp.error().ToString();
  EXPECT_EQ(qp->number(), 0x800012u);
  EXPECT_EQ(qp->info().key, "a0");
  ASSERT_TRUE(qp->endpoint().has_value());
  EXPECT_EQ(qp->endpoint()->port, 1u);
  ASSERT_NE(qp->lease(), nullptr);

  Result<Qp> by_number = client.OpenQp(domain->name(), 0x800013);
  ASSERT_TRUE(by_number.ok());
  EXPECT_EQ(by_number->number(), 0x800013u);
  Result<Qp> by_key = client.OpenQp(domain->name(), "a0");
  ASSERT_TRUE(by_key.ok());
  EXPECT_EQ(by_key->info().key, "a0");
  EXPECT_EQ(daemon_.HeldLeases(), 4);

  EXPECT_EQ(*client.ModifyQp(qp->name(), {.state = QpState::kInit}), QpState::kInit);
  EXPECT_TRUE(client.ConnectQp(qp->name(), {.remote = {.qp_num = 7}})->already_connected);
  EXPECT_EQ(client.QueryQp(qp->name())->attributes.state, QpState::kRtr);
  EXPECT_EQ(client.DestroyQp(qp->name())->remaining_leases, 3u);
  EXPECT_EQ(client.DestroyXrcd(domain->name())->holders.size(), 1u);
  Result<std::vector<QpInfo>> qps = client.ListDomainQps(domain->name(), "a");
  ASSERT_TRUE(qps.ok());
  ASSERT_EQ(qps->size(), 2u);
  EXPECT_EQ((*qps)[0].key, "ax");

  EXPECT_TRUE(qp->Close().ok());
  EXPECT_EQ(*domain->Close(), 2u);
  EXPECT_EQ(domain->domain_fd(), -1);
  EXPECT_EQ(daemon_.HeldLeases(), 2);
}

TEST_F(ClientTest, QpThatLivesAsItsDomainHasNoLease) {
  Client client = Connect();
  Result<Qp> qp = client.CreateQp("xrcd", {.key = "a0", .life = QpLife::kDomain});
  ASSERT_TRUE(qp.ok());
  EXPECT_EQ(qp->lease(), nullptr);
  EXPECT_EQ(qp->Close().error().reason, "LEASE_NOT_FOUND");
}

TEST_F(ClientTest, DaemonsErrorArrivesWhole) {
  Client client = Connect();
  auto before = FdCensus();
  Result<Xrcd> domain = client.OpenXrcd({.device = "vhca0", .name = "forbidden"});
  ASSERT_FALSE(domain.ok());
  EXPECT_EQ(domain.error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(domain.error().reason, "PERMISSION_DENIED");
  EXPECT_EQ(domain.error().message, "you may not do this");
  EXPECT_EQ(domain.error().hint, "a hint");
  EXPECT_EQ(domain.error().metadata.at("device"), "vhca0");
  EXPECT_TRUE(NothingIsOpenBeyond(before));
}

TEST_F(ClientTest, BytesBeyondAsciiAreRefusedHere) {
  Client client = Connect();
  for (const Error& error :
       {client.OpenXrcd({.device = "vhca0", .name = "\xff"}).error(),
        client.CreateQp("\xff").error(), client.OpenQp("x", "\xff").error(),
        client.ModifyQp("\xff", {}).error(), client.ConnectQp("\xff", {}).error(),
        client.QueryQp("\xff").error(), client.DestroyQp("\xff").error(),
        client.DestroyXrcd("\xff").error(), client.ListDomainQps("x", "\xff").error()}) {
    EXPECT_EQ(error.reason, "INVALID_FIELD");
    EXPECT_EQ(error.metadata.count("field"), 1u);
  }
}

TEST_F(ClientTest, ConnectingAndLeavingOpensNothing) {
  auto before = FdCensus();
  for (int i = 0; i < 20; ++i) {
    Client client = Connect();
  }
  EXPECT_TRUE(ClientsLeaveNothingBeyond(before));
}

TEST_F(ClientTest, EveryCallLeavesTheCensusAsItWas) {
  Client client = Connect();
  ASSERT_TRUE(client.WhoAmI().ok());
  auto before = FdCensus();
  const std::vector<std::function<bool()>> calls = {
      [&] { return client.WhoAmI().ok(); },
      [&] { return client.ListDevices().ok(); },
      [&] { return client.OpenXrcd({.device = "vhca0", .name = "x"}).ok(); },
      [&] { return client.OpenXrcd({.device = "vhca0", .name = "x"})->Close().ok(); },
      [&] { return client.CreateQp("x", {.key = "k"}).ok(); },
      [&] { return client.CreateQp("x", {.key = "k"})->Close().ok(); },
      [&] { return client.OpenQp("x", 1).ok(); },
      [&] { return client.OpenQp("x", "k")->Close().ok(); },
      [&] { return client.QueryQp("x").ok(); },
      [&] { return client.DestroyQp("x").ok(); },
      [&] { return client.DestroyXrcd("x").ok(); },
      [&] { return client.ListDomainQps("x").ok(); },
      [&] { return client.ProcessSession().ok(); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(calls[i]());
    EXPECT_TRUE(NothingIsHeld());  // And the fake's own ends are closed with them.
    EXPECT_TRUE(NothingIsOpenBeyond(before));
  }
}

TEST_F(ClientTest, AbsentDaemonIsUnreachableWithPathAndHint) {
  Result<Client> client = Client::Connect({.runtime_dir = "/nonexistent"});
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(client.error().reason, "DAEMON_UNREACHABLE");
  EXPECT_EQ(client.error().metadata.at("path"), "/nonexistent/session.sock");
  EXPECT_FALSE(client.error().hint.empty());
}

TEST_F(ClientTest, BadRuntimeDirIsRefused) {
  for (const std::string& dir : {std::string(), std::string(200, 'x'), std::string("/a\0b", 4)}) {
    EXPECT_EQ(Client::Connect({.runtime_dir = dir}).error().reason, "INVALID_FIELD");
  }
}

TEST_F(ClientTest, NoTimeMeansNoCall) {
  Client client = Connect();
  EXPECT_EQ(client.WhoAmI({.timeout = milliseconds(0)}).error().reason, "DEADLINE_EXCEEDED");
  EXPECT_EQ(client.OpenQp("x", 1, {}, {.timeout = milliseconds(-5)}).error().reason,
            "DEADLINE_EXCEEDED");
  EXPECT_TRUE(client.WhoAmI({.timeout = milliseconds::max()}).ok());
  EXPECT_EQ(daemon_.HeldLeases(), 0);
}

TEST_F(ClientTest, EachOfManyThreadsGetsItsOwnDescriptors) {
  Client client = Connect();
  constexpr int kThreads = 6;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&client, i] {
      for (int round = 0; round < 40; ++round) {
        std::string name = "job-" + std::to_string(i) + "." + std::to_string(round);
        Result<Xrcd> domain = client.OpenXrcd({.device = "vhca0", .name = name});
        ASSERT_TRUE(domain.ok()) << domain.error().ToString();
        EXPECT_EQ(ContentOf(domain->domain_fd()), name);
        if (round % 2 == 0) {
          Result<uint32_t> closed = domain->Close();
          EXPECT_TRUE(closed.ok()) << closed.error().ToString();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(NothingIsHeld());
}

TEST_F(ClientTest, SameRequestIdAtOnceIsRefusedHere) {
  Client client = Connect();
  std::promise<void> inside;
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  daemon_.OnAnswer([&inside, gone](grpc::ServerContext&) {
    inside.set_value();
    gone.wait();
  });
  std::thread first([&] { EXPECT_TRUE(client.OpenQp("x", 1, {.request_id = "same"}).ok()); });
  inside.get_future().wait();
  EXPECT_EQ(client.OpenQp("x", 1, {.request_id = "same"}).error().reason, "REQUEST_IN_PROGRESS");
  go.set_value();
  first.join();
}

TEST_F(ClientTest, EventsAndHangUpReachTheLease) {
  Client client = Connect();
  Result<Qp> qp = client.OpenQp("x", 1);
  ASSERT_TRUE(qp.ok());
  daemon_.SendEvent({.kind = EventKind::kQpError, .qp_num = 1, .sequence = 1});
  Result<std::optional<Event>> event = qp->lease()->WaitEvent(std::chrono::seconds(20));
  ASSERT_TRUE(event.ok() && event->has_value());
  EXPECT_EQ((*event)->kind, Event::Kind::kQpError);
  daemon_.HangUpLeases();
  EXPECT_EQ((*qp->lease()->WaitEvent(std::chrono::seconds(20)))->kind, Event::Kind::kGone);
  EXPECT_EQ(qp->Close().error().reason, "LEASE_NOT_FOUND");
}

TEST_F(ClientTest, LeasesOutliveTheirClient) {
  std::optional<Xrcd> kept;
  {
    Client client = Connect();
    kept = *client.OpenXrcd({.device = "vhca0", .name = "x"});
  }
  EXPECT_EQ(daemon_.HeldLeases(), 1);
  EXPECT_EQ(ContentOf(kept->domain_fd()), "x");
  EXPECT_EQ(kept->Close().error().reason, "DAEMON_UNREACHABLE");
  EXPECT_TRUE(NothingIsHeld());
}

}  // namespace
}  // namespace qpbroker
