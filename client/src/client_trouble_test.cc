// SPDX-License-Identifier: Apache-2.0
// The whole library against a daemon in this process that misbehaves, and at the limits of the
// machine.
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/src/testing/client_fixture.h"
#include "client/src/testing/fake_session.h"
#include "client/src/testing/fd_census.h"
#include "client/src/testing/grant_fds.h"
#include "gtest/gtest.h"
#include "qpbroker/client.h"

namespace qpbroker {
namespace {

using client::testing::FakeDaemon;
using client::testing::FdCensus;
using client::testing::FileLimit;
using client::testing::GreetingBytes;
using client::testing::ListenUnix;
using client::testing::MakeTempDir;
using client::testing::NothingIsOpenBeyond;
using client::testing::SendRaw;
using std::chrono::milliseconds;

// For what never comes.
constexpr CallOptions kBrief{.timeout = milliseconds(100)};

using ClientTroubleTest = client::testing::ClientFixture;

TEST_F(ClientTroubleTest, DaemonThatKnowsNoSuchNonceRefuses) {
  daemon_.OnGreet([](int session) {
    SendRaw(session, GreetingBytes(std::string(16, 'z')), {});
    pollfd entry{session, POLLRDHUP, 0};
    poll(&entry, 1, 10'000);
  });
  EXPECT_EQ(TryConnect().error().reason, "BAD_NONCE");
}

TEST_F(ClientTroubleTest, FailedGreetingsLeaveNothingAndTheNextConnectWorks) {
  auto before = FdCensus();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {GreetingBytes(std::string(16, 'n'), 2), "PROTOCOL_VIOLATION"},
      {GreetingBytes("short"), "PROTOCOL_VIOLATION"},
      {std::string(64, '\xff'), "PROTOCOL_VIOLATION"},
      {"", "DAEMON_UNREACHABLE"}};
  for (const auto& [bytes, reason] : cases) {
    daemon_.OnGreet([&bytes = bytes](int session) { SendRaw(session, bytes, {}); });
    EXPECT_EQ(TryConnect().error().reason, reason);
    EXPECT_TRUE(ClientsLeaveNothingBeyond(before));
  }
  daemon_.Behave();
  EXPECT_TRUE(TryConnect().ok());
}

TEST_F(ClientTroubleTest, ApiSocketThatIsNoDaemonsGivesATypedErrorInTime) {
  std::string dir = MakeTempDir();
  UniqueFd sessions = ListenUnix(dir + "/session.sock", SOCK_SEQPACKET);
  UniqueFd api = ListenUnix(dir + "/api.sock", SOCK_STREAM);
  UniqueFd session;
  client::testing::AcceptOne greeter(sessions.get(), [&](UniqueFd accepted) {
    SendRaw(accepted.get(), GreetingBytes(std::string(16, 'n')), {});
    session = std::move(accepted);
  });
  Result<Client> client =
      Client::Connect({.runtime_dir = dir, .timeout = std::chrono::milliseconds(200)});
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().reason, "DEADLINE_EXCEEDED");
}

TEST_F(ClientTroubleTest, BadDeliveriesGiveTypedErrorsAndTheNextCallWorks) {
  Client client = Connect();
  ASSERT_TRUE(client.WhoAmI().ok());
  auto before = FdCensus();
  using Deliver = std::function<void(int, const FakeDaemon::Delivery&)>;
  const std::vector<std::pair<Deliver, std::string>> cases = {
      {[](int, const FakeDaemon::Delivery&) {}, "FD_NOT_DELIVERED"},
      {[](int session, const FakeDaemon::Delivery& d) { SendRaw(session, d.bytes(), {}); },
       "FD_NOT_DELIVERED"},
      {[](int session, const FakeDaemon::Delivery& d) { SendRaw(session, d.bytes(), {d.fds[0]}); },
       "FD_NOT_DELIVERED"},
      {[](int session, const FakeDaemon::Delivery& d) {
         SendRaw(session, d.bytes(), {d.fds[0], d.fds[1], d.fds[1]});
       },
       "PROTOCOL_VIOLATION"},
      {[](int session, const FakeDaemon::Delivery& d) {
         SendRaw(session, d.bytes(), {d.fds[1], d.fds[0]});
       },
       "PROTOCOL_VIOLATION"},
      {[](int session, const FakeDaemon::Delivery& d) {
         SendRaw(session, std::string(64, '\xff'), d.fds);
       },
       "PROTOCOL_VIOLATION"},
      {[](int session, const FakeDaemon::Delivery& d) {
         SendRaw(session, d.bytes() + std::string(5000, 'x'), d.fds);
       },
       "PROTOCOL_VIOLATION"},
      {[](int session, const FakeDaemon::Delivery& d) {
         FakeDaemon::Delivery stranger = d;
         stranger.request_id = "stranger";
         SendRaw(session, stranger.bytes(), d.fds);
       },
       "FD_NOT_DELIVERED"},
      {[](int session, const FakeDaemon::Delivery& d) {
         FakeDaemon::Delivery other = d;
         other.grant_id += 1000;
         SendRaw(session, other.bytes(), d.fds);
       },
       "FD_NOT_DELIVERED"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    daemon_.OnDeliver(cases[i].first);
    Result<Xrcd> domain = client.OpenXrcd({.device = "vhca0", .name = "x"}, kBrief);
    ASSERT_FALSE(domain.ok());
    EXPECT_EQ(domain.error().reason, cases[i].second) << domain.error().ToString();
    ExpectNextCallWorks(client);
    EXPECT_TRUE(NothingIsHeld());
    EXPECT_TRUE(NothingIsOpenBeyond(before));
  }
}

TEST_F(ClientTroubleTest, FileLimitGivesATypedErrorAndIsSurvived) {
  Client client = Connect();
  ASSERT_TRUE(client.WhoAmI().ok());
  for (int room : {0, 1, 2}) {
    SCOPED_TRACE(room);
    daemon_.PrepareGrant();
    std::optional<Result<Xrcd>> domain;
    {
      FileLimit limit(room);
      domain = client.OpenXrcd({.device = "vhca0", .name = "x"});
    }
    EXPECT_EQ(domain->ok(), room == 2);
    if (!domain->ok()) {
      EXPECT_EQ(domain->error().code, ErrorCode::kResourceExhausted);
      EXPECT_EQ(domain->error().reason, "FD_NOT_DELIVERED");
    }
    ExpectNextCallWorks(client);
    EXPECT_EQ(daemon_.HeldLeases(), room == 2 ? 1 : 0);
  }
}

TEST_F(ClientTroubleTest, ConnectAtTheFileLimitFailsAndLeavesNothing) {
  auto before = FdCensus();
  Result<Client> client = [&] {
    FileLimit limit(0);
    return TryConnect(milliseconds(500));
  }();
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(ClientsLeaveNothingBeyond(before));
}

TEST_F(ClientTroubleTest, LateDeliveryOfACallThatTimedOutIsReleased) {
  Client client = Connect();
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  daemon_.OnDeliver([gone](int session, const FakeDaemon::Delivery& delivery) {
    gone.wait();
    SendRaw(session, delivery.bytes(), delivery.fds);
  });
  Result<Xrcd> domain = client.OpenXrcd({.device = "vhca0", .name = "x"}, kBrief);
  ASSERT_FALSE(domain.ok());
  EXPECT_EQ(domain.error().reason, "DEADLINE_EXCEEDED");
  EXPECT_EQ(daemon_.HeldLeases(), 1);
  go.set_value();
  pollfd entry{client.session_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 20'000), 1);
  EXPECT_TRUE(client.ProcessSession().ok());
  EXPECT_TRUE(NothingIsHeld());
  ExpectNextCallWorks(client);
}

TEST_F(ClientTroubleTest, AnyNextCallReleasesALateDelivery) {
  Client client = Connect();
  daemon_.OnAnswer([](grpc::ServerContext& context) {
    while (!context.IsCancelled()) std::this_thread::yield();
  });
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  std::promise<void> sent;
  daemon_.OnDeliver([gone, &sent](int session, const FakeDaemon::Delivery& delivery) {
    gone.wait();
    SendRaw(session, delivery.bytes(), delivery.fds);
    sent.set_value();
  });
  EXPECT_EQ(client.OpenQp("x", 1, {}, kBrief).error().reason, "DEADLINE_EXCEEDED");
  go.set_value();
  sent.get_future().wait();
  EXPECT_TRUE(client.WhoAmI().ok());
  EXPECT_TRUE(NothingIsHeld());
}

TEST_F(ClientTroubleTest, DeliveryOfACallThatFailedIsReleased) {
  Client client = Connect();
  daemon_.OnAnswer([](grpc::ServerContext& context) {
    while (!context.IsCancelled()) std::this_thread::yield();
  });
  EXPECT_EQ(client.OpenQp("x", 1, {}, kBrief).error().reason, "DEADLINE_EXCEEDED");
  EXPECT_TRUE(NothingIsHeld());  // It was there when the call gave up.
}

TEST_F(ClientTroubleTest, SessionThatEndsInMidCallIsGoneAndAFreshConnectWorks) {
  Client client = Connect();
  daemon_.OnDeliver([this](int, const FakeDaemon::Delivery&) { daemon_.CloseSessions(); });
  EXPECT_EQ(client.OpenQp("x", 1).error().reason, "SESSION_GONE");
  EXPECT_EQ(client.OpenQp("x", 1).error().reason, "SESSION_GONE");
  EXPECT_EQ(client.ProcessSession().error().reason, "SESSION_GONE");
  EXPECT_TRUE(client.WhoAmI().ok());
  EXPECT_TRUE(NothingIsHeld());
  Client fresh = Connect();
  ExpectNextCallWorks(fresh);
}

TEST_F(ClientTroubleTest, DaemonThatGoesInMidCallIsUnreachable) {
  Client client = Connect();
  Result<Qp> held = client.OpenQp("x", 1);
  ASSERT_TRUE(held.ok());
  std::promise<void> inside;
  daemon_.OnAnswer([&inside](grpc::ServerContext& context) {
    inside.set_value();
    while (!context.IsCancelled()) std::this_thread::yield();
  });
  std::thread killer([&] {
    inside.get_future().wait();
    daemon_.StopApi();
  });
  Result<Qp> qp = client.OpenQp("x", 2);
  killer.join();
  ASSERT_FALSE(qp.ok());
  EXPECT_EQ(qp.error().reason, "DAEMON_UNREACHABLE") << qp.error().ToString();
  EXPECT_EQ(client.WhoAmI().error().reason, "DAEMON_UNREACHABLE");
  EXPECT_EQ(daemon_.HeldLeases(), 1);  // What was held before still is.
  EXPECT_EQ(held->Close().error().reason, "DAEMON_UNREACHABLE");
  EXPECT_TRUE(NothingIsHeld());
}

}  // namespace
}  // namespace qpbroker
