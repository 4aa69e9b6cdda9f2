// SPDX-License-Identifier: Apache-2.0
// The whole library against a daemon in this process that misbehaves on demand.
#include "qpbroker/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/src/testing/fake_daemon.h"
#include "client/src/testing/fake_session.h"
#include "client/src/testing/fd_census.h"
#include "client/src/testing/grant_fds.h"
#include "gtest/gtest.h"

namespace qpbroker {
namespace {

using client::testing::ContentOf;
using client::testing::Eventually;
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

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() { std::signal(SIGPIPE, SIG_DFL); }

  Result<Client> TryConnect(milliseconds timeout = std::chrono::seconds(30)) {
    return Client::Connect({.runtime_dir = daemon_.dir(), .timeout = timeout});
  }

  Client Connect() {
    Result<Client> connected = TryConnect();
    EXPECT_TRUE(connected.ok()) << connected.error().ToString();
    return *std::move(connected);
  }

  // Opens a domain honestly and gives it back: the client has survived what came before.
  void ExpectNextCallWorks(Client& client) {
    daemon_.Behave();
    Result<Xrcd> domain = client.OpenXrcd({.device = "vhca0", .name = "next"});
    ASSERT_TRUE(domain.ok()) << domain.error().ToString();
    EXPECT_EQ(ContentOf(domain->domain_fd()), "next");
    Result<uint32_t> closed = domain->Close();
    EXPECT_TRUE(closed.ok()) << closed.error().ToString();
  }

  // For clients that ended: their ends in the fake are open a little longer.
  ::testing::AssertionResult ClientsLeaveNothingBeyond(const std::map<int, std::string>& before) {
    EXPECT_TRUE(Eventually([&] { return daemon_.ForgetDeadSessions() == 0; }));
    return NothingIsOpenBeyond(before);
  }

  bool NothingIsHeld() {
    return Eventually([&] { return daemon_.HeldLeases() == 0; });
  }

  FakeDaemon daemon_;
};

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

TEST_F(ClientTest, DaemonThatKnowsNoSuchNonceRefuses) {
  daemon_.OnGreet([](int session) {
    SendRaw(session, GreetingBytes(std::string(16, 'z')), {});
    pollfd entry{session, POLLRDHUP, 0};
    poll(&entry, 1, 10'000);
  });
  EXPECT_EQ(TryConnect().error().reason, "BAD_NONCE");
}

TEST_F(ClientTest, FailedGreetingsLeaveNothingAndTheNextConnectWorks) {
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

TEST_F(ClientTest, ApiSocketThatIsNoDaemonsGivesATypedErrorInTime) {
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

TEST_F(ClientTest, BadDeliveriesGiveTypedErrorsAndTheNextCallWorks) {
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

TEST_F(ClientTest, FileLimitGivesATypedErrorAndIsSurvived) {
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

TEST_F(ClientTest, ConnectAtTheFileLimitFailsAndLeavesNothing) {
  auto before = FdCensus();
  Result<Client> client = [&] {
    FileLimit limit(0);
    return TryConnect(milliseconds(500));
  }();
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(ClientsLeaveNothingBeyond(before));
}

TEST_F(ClientTest, LateDeliveryOfACallThatTimedOutIsReleased) {
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

TEST_F(ClientTest, AnyNextCallReleasesALateDelivery) {
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

TEST_F(ClientTest, DeliveryOfACallThatFailedIsReleased) {
  Client client = Connect();
  daemon_.OnAnswer([](grpc::ServerContext& context) {
    while (!context.IsCancelled()) std::this_thread::yield();
  });
  EXPECT_EQ(client.OpenQp("x", 1, {}, kBrief).error().reason, "DEADLINE_EXCEEDED");
  EXPECT_TRUE(NothingIsHeld());  // It was there when the call gave up.
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

TEST_F(ClientTest, SessionThatEndsInMidCallIsGoneAndAFreshConnectWorks) {
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

TEST_F(ClientTest, DaemonThatGoesInMidCallIsUnreachable) {
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

int ExitStatusOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// In a child: 0 if everything that an inherited client is asked for fails cleanly and at once.
int UseInheritedClient(const std::string& dir, std::optional<Client>& client, Qp& qp) {
  if (client->WhoAmI().ok() || client->WhoAmI().error().reason != "NOT_ATTACHED") return 1;
  if (client->OpenQp("x", 1).error().reason != "NOT_ATTACHED") return 2;
  if (client->ProcessSession().error().reason != "NOT_ATTACHED") return 3;
  if (Client::Connect({.runtime_dir = dir}).error().reason != "NOT_ATTACHED") return 4;
  if (qp.Close().error().reason != "NOT_ATTACHED") return 5;
  client.reset();
  return 0;
}

// Forks a child that uses what it inherited; the child's exit status, 100 + N if signal N ended it.
int ForkAndUse(const std::string& dir, std::optional<Client>& client, Qp& qp) {
  pid_t child = fork();
  if (child == 0) {
    alarm(5);  // A hang is a failure.
    _exit(UseInheritedClient(dir, client, qp));
  }
  return ExitStatusOf(child);
}

// Other than glibc's, the sanitizer's allocator may stay locked for ever in a child that was forked
// while another thread was in it. Then nothing can be said about this child.
bool MayBeTheSanitizersHang(int status) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return status == 100 + SIGALRM;
#else
  static_cast<void>(status);
  return false;
#endif
}

TEST_F(ClientTest, ForkedChildGetsCleanErrorsAndDisturbsNothing) {
  std::optional<Client> client(Connect());
  Result<Qp> qp = client->OpenQp("x", 1);
  ASSERT_TRUE(qp.ok());
  int status = ForkAndUse(daemon_.dir(), client, *qp);
  EXPECT_TRUE(status == 0 || MayBeTheSanitizersHang(status)) << status;
  // The child closed its copies and ended: the parent's reference and connection are as before.
  EXPECT_EQ(daemon_.HeldLeases(), 1);
  EXPECT_TRUE(client->WhoAmI().ok());
  ExpectNextCallWorks(*client);
  EXPECT_TRUE(qp->Close().ok());
}

TEST_F(ClientTest, ForkIsSafeWhileOtherThreadsCall) {
  std::optional<Client> client(Connect());
  Result<Qp> qp = client->OpenQp("x", 1);
  ASSERT_TRUE(qp.ok());
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) EXPECT_TRUE(client->OpenQp("x", 2).ok());
  });
  for (int i = 0; i < 20; ++i) {
    int status = ForkAndUse(daemon_.dir(), client, *qp);
    EXPECT_TRUE(status == 0 || MayBeTheSanitizersHang(status)) << status;
  }
  stop = true;
  busy.join();
}

TEST_F(ClientTest, ChildsCopyKeepsTheReference) {
  Client client = Connect();
  std::optional<Qp> qp = *client.OpenQp("x", 1);
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  UniqueFd child_waits(fds[0]);
  UniqueFd let_child_go(fds[1]);
  pid_t child = fork();
  if (child == 0) {
    let_child_go.reset();
    char byte;
    _exit(read(child_waits.get(), &byte, 1) == 0 ? 0 : 1);
  }
  qp.reset();
  EXPECT_EQ(daemon_.HeldLeases(), 1);
  let_child_go.reset();
  EXPECT_EQ(ExitStatusOf(child), 0);
  EXPECT_EQ(daemon_.HeldLeases(), 0);
}

}  // namespace
}  // namespace qpbroker
