// SPDX-License-Identifier: Apache-2.0
#include "client/src/session_channel.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/src/testing/fake_session.h"
#include "client/src/testing/fd_census.h"
#include "client/src/testing/grant_fds.h"
#include "common/error_reason.h"
#include "gtest/gtest.h"

namespace qpbroker::client {
namespace {

using std::chrono::milliseconds;
using testing::AcceptOne;
using testing::ContentOf;
using testing::DeliveryBytes;
using testing::Eventually;
using testing::FdCensus;
using testing::FileLimit;
using testing::GrantFds;
using testing::GreetingBytes;
using testing::LeaseIsHeld;
using testing::ListenUnix;
using testing::MakeGrantFds;
using testing::MakeTempDir;
using testing::NothingIsOpenBeyond;
using testing::SendRaw;

const std::string kNonce(16, 'n');
const std::vector<v1::FdKind> kLease = {v1::FD_KIND_LEASE};
const std::vector<v1::FdKind> kBoth = {v1::FD_KIND_LEASE, v1::FD_KIND_XRCD};

// Long enough to never be reached where something comes.
Deadline Soon() { return DeadlineAfter(std::chrono::seconds(60)); }
// For what never comes.
Deadline AtOnce() { return DeadlineAfter(milliseconds(30)); }

class SessionChannelTest : public ::testing::Test {
 protected:
  SessionChannelTest() : dir_(MakeTempDir()), path_(dir_ + "/session.sock") {
    listener_ = ListenUnix(path_, SOCK_SEQPACKET);
  }
  ~SessionChannelTest() override { std::filesystem::remove_all(dir_); }

  absl::StatusOr<std::unique_ptr<SessionChannel>> ConnectTo(const std::function<void(int)>& greet,
                                                            Deadline deadline = Soon()) {
    AcceptOne accept(listener_.get(), [&](UniqueFd socket) {
      greet(socket.get());
      peer_ = std::move(socket);
    });
    return SessionChannel::Connect(path_, deadline);
  }

  std::unique_ptr<SessionChannel> Connect() {
    auto channel = ConnectTo([](int socket) { SendRaw(socket, GreetingBytes(kNonce), {}); });
    EXPECT_TRUE(channel.ok()) << channel.status();
    return *std::move(channel);
  }

  int Deliver(const std::string& request_id, uint64_t grant_id, const std::vector<int>& fds,
              const std::vector<v1::FdKind>& kinds = kBoth) {
    return SendRaw(peer_.get(), DeliveryBytes(request_id, grant_id, kinds), fds);
  }

  // A honest grant comes through: the channel has survived what came before.
  void ExpectNextCallWorks(SessionChannel& channel) {
    GrantFds grant = MakeGrantFds(dir_, "next");
    auto expectation = channel.Expect("next");
    ASSERT_TRUE(expectation.ok()) << expectation.status();
    ASSERT_EQ(Deliver("next", 99, {grant.lease.get(), grant.file.get()}), 0);
    auto fds = expectation->Take(99, kBoth, Soon());
    ASSERT_TRUE(fds.ok()) << fds.status();
    EXPECT_EQ(ContentOf((*fds)[1].get()), "next");
  }

  std::string dir_;
  std::string path_;
  UniqueFd listener_;
  UniqueFd peer_;
};

TEST_F(SessionChannelTest, GreetingGivesTheNonce) { EXPECT_EQ(Connect()->nonce(), kNonce); }

TEST_F(SessionChannelTest, AbsentDaemonIsUnreachableAndThePathIsNamed) {
  auto channel = SessionChannel::Connect(dir_ + "/nothing.sock", Soon());
  EXPECT_EQ(ReasonOf(channel.status()), v1::REASON_DAEMON_UNREACHABLE);
  EXPECT_EQ(ErrnoNameOf(channel.status()), "ENOENT");
  EXPECT_NE(channel.status().message().find(dir_ + "/nothing.sock"), absl::string_view::npos);
}

TEST_F(SessionChannelTest, DeadDaemonIsUnreachable) {
  listener_.reset();
  auto channel = SessionChannel::Connect(path_, Soon());
  EXPECT_EQ(ReasonOf(channel.status()), v1::REASON_DAEMON_UNREACHABLE);
  EXPECT_EQ(ErrnoNameOf(channel.status()), "ECONNREFUSED");
}

TEST_F(SessionChannelTest, UnusablePathIsRefused) {
  for (const std::string& path :
       {std::string(), std::string(108, 'x'), std::string("\0abstract", 9)}) {
    auto channel = SessionChannel::Connect(path, Soon());
    EXPECT_EQ(ReasonOf(channel.status()), v1::REASON_INVALID_FIELD);
  }
}

TEST_F(SessionChannelTest, DaemonThatNeverAcceptsOrGreetsCostsNoMoreThanTheDeadline) {
  auto channel = SessionChannel::Connect(path_, AtOnce());
  EXPECT_EQ(ReasonOf(channel.status()), v1::REASON_DEADLINE_EXCEEDED);
}

TEST_F(SessionChannelTest, FullBacklogCostsNoMoreThanTheDeadline) {
  std::string path = dir_ + "/full.sock";
  UniqueFd listener = ListenUnix(path, SOCK_SEQPACKET, /*backlog=*/0);
  auto first =
      SessionChannel::Connect(path, AtOnce());  // Takes the only place and leaves it taken.
  auto second = SessionChannel::Connect(path, AtOnce());
  EXPECT_EQ(ReasonOf(second.status()), v1::REASON_DEADLINE_EXCEEDED);
}

struct BadGreeting {
  std::string name;
  std::string bytes;
  v1::Reason reason = v1::REASON_PROTOCOL_VIOLATION;
};

TEST_F(SessionChannelTest, BadGreetingIsRefusedAndLeavesNothing) {
  const std::vector<BadGreeting> cases = {
      {"garbage", std::string(100, '\xff')},
      {"wrong version", GreetingBytes(kNonce, 2)},
      {"no version", GreetingBytes(kNonce, 0)},
      {"short nonce", GreetingBytes("short")},
      {"long nonce", GreetingBytes(std::string(17, 'n'))},
      {"too long", GreetingBytes(std::string(5000, 'n'))},
      {"delivery first", DeliveryBytes("x", 1, {})},
      {"empty", "", v1::REASON_DAEMON_UNREACHABLE},
  };
  for (const BadGreeting& bad : cases) {
    SCOPED_TRACE(bad.name);
    peer_.reset();
    GrantFds grant = MakeGrantFds(dir_, "stray");
    grant.lease_end.reset();
    auto before = FdCensus();
    auto channel = ConnectTo([&](int socket) {
      SendRaw(socket, bad.bytes, {grant.lease.get(), grant.file.get()});
    });
    EXPECT_EQ(ReasonOf(channel.status()), bad.reason) << channel.status();
    peer_.reset();
    EXPECT_TRUE(NothingIsOpenBeyond(before));
  }
}

TEST_F(SessionChannelTest, EndBeforeTheGreetingIsUnreachable) {
  auto channel = ConnectTo([](int socket) { shutdown(socket, SHUT_RDWR); });
  EXPECT_EQ(ReasonOf(channel.status()), v1::REASON_DAEMON_UNREACHABLE);
}

TEST_F(SessionChannelTest, DescriptorsGoToTheCallThatExpectsThem) {
  auto channel = Connect();
  auto before = FdCensus();
  {
    GrantFds grant = MakeGrantFds(dir_, "job-7");
    auto expectation = channel->Expect("a");
    ASSERT_EQ(Deliver("a", 5, {grant.lease.get(), grant.file.get()}), 0);
    auto fds = expectation->Take(5, kBoth, Soon());
    ASSERT_TRUE(fds.ok()) << fds.status();
    grant.lease.reset();
    EXPECT_TRUE(LeaseIsHeld(grant.lease_end));
    EXPECT_EQ(ContentOf((*fds)[1].get()), "job-7");
    for (const UniqueFd& fd : *fds) EXPECT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
    EXPECT_NE(fcntl((*fds)[0].get(), F_GETFL) & O_NONBLOCK, 0);
    fds->clear();
    EXPECT_FALSE(LeaseIsHeld(grant.lease_end));
  }
  EXPECT_EQ(FdCensus(), before);
}

TEST_F(SessionChannelTest, WhatNobodyExpectsIsClosed) {
  auto channel = Connect();
  GrantFds grant = MakeGrantFds(dir_, "stray");
  ASSERT_EQ(Deliver("stranger", 1, {grant.lease.get(), grant.file.get()}), 0);
  grant.lease.reset();
  EXPECT_TRUE(LeaseIsHeld(grant.lease_end));
  EXPECT_TRUE(channel->Drain().ok());
  EXPECT_FALSE(LeaseIsHeld(grant.lease_end));
  ExpectNextCallWorks(*channel);
}

TEST_F(SessionChannelTest, WhatComesForACallThatGaveUpIsClosed) {
  auto channel = Connect();
  GrantFds early = MakeGrantFds(dir_, "early");
  GrantFds late = MakeGrantFds(dir_, "late");
  {
    auto expectation = channel->Expect("a");
    ASSERT_EQ(Deliver("a", 1, {early.lease.get(), early.file.get()}), 0);
    early.lease.reset();
  }
  EXPECT_FALSE(LeaseIsHeld(early.lease_end));
  ASSERT_EQ(Deliver("a", 2, {late.lease.get(), late.file.get()}), 0);
  late.lease.reset();
  EXPECT_TRUE(channel->Drain().ok());
  EXPECT_FALSE(LeaseIsHeld(late.lease_end));
}

TEST_F(SessionChannelTest, DeliveryOfAnEarlierTryIsNotTakenForThisOne) {
  auto channel = Connect();
  GrantFds old = MakeGrantFds(dir_, "old");
  GrantFds current = MakeGrantFds(dir_, "current");
  auto expectation = channel->Expect("a");
  ASSERT_EQ(Deliver("a", 1, {old.lease.get(), old.file.get()}), 0);
  ASSERT_EQ(Deliver("a", 2, {current.lease.get(), current.file.get()}), 0);
  old.lease.reset();
  auto fds = expectation->Take(2, kBoth, Soon());
  ASSERT_TRUE(fds.ok()) << fds.status();
  EXPECT_EQ(ContentOf((*fds)[1].get()), "current");
  EXPECT_FALSE(LeaseIsHeld(old.lease_end));
}

TEST_F(SessionChannelTest, TwoCallsMayNotShareARequestId) {
  auto channel = Connect();
  auto first = channel->Expect("a");
  EXPECT_EQ(ReasonOf(channel->Expect("a").status()), v1::REASON_REQUEST_IN_PROGRESS);
}

TEST_F(SessionChannelTest, NothingDeliveredIsNotDelivered) {
  auto channel = Connect();
  auto before = FdCensus();
  {
    auto expectation = channel->Expect("a");
    EXPECT_EQ(ReasonOf(expectation->Take(1, kBoth, AtOnce()).status()),
              v1::REASON_FD_NOT_DELIVERED);
  }
  EXPECT_EQ(FdCensus(), before);
  ExpectNextCallWorks(*channel);
}

TEST_F(SessionChannelTest, UnreadablePacketIsAViolationAndItsDescriptorsAreClosed) {
  auto channel = Connect();
  for (const std::string& bytes :
       {std::string(50, '\xff'), std::string(5000, 'x'), GreetingBytes(kNonce)}) {
    GrantFds grant = MakeGrantFds(dir_, "x");
    auto expectation = channel->Expect("a");
    ASSERT_EQ(SendRaw(peer_.get(), bytes, {grant.lease.get(), grant.file.get()}), 0);
    grant.lease.reset();
    EXPECT_EQ(ReasonOf(expectation->Take(1, kBoth, AtOnce()).status()),
              v1::REASON_PROTOCOL_VIOLATION);
    EXPECT_FALSE(LeaseIsHeld(grant.lease_end));
  }
  ExpectNextCallWorks(*channel);
}

struct BadDelivery {
  std::string name;
  std::vector<v1::FdKind> kinds;
  std::function<std::vector<int>(const GrantFds&)> fds;
  v1::Reason reason = v1::REASON_PROTOCOL_VIOLATION;
};

std::vector<BadDelivery> BadDeliveries(int socket, int event, int writable, int folder, int path) {
  return {
      {"no descriptors", kBoth, [](const GrantFds&) { return std::vector<int>(); },
       v1::REASON_FD_NOT_DELIVERED},
      {"one is missing", kBoth, [](const GrantFds& g) { return std::vector{g.lease.get()}; },
       v1::REASON_FD_NOT_DELIVERED},
      {"one too many", kBoth,
       [](const GrantFds& g) {
         return std::vector{g.lease.get(), g.file.get(), g.file.get()};
       }},
      {"as many as fit", kBoth, [](const GrantFds& g) { return std::vector(253, g.lease.get()); }},
      {"fewer kinds", kLease, [](const GrantFds& g) { return std::vector{g.lease.get()}; }},
      {"kinds in another order",
       {v1::FD_KIND_XRCD, v1::FD_KIND_LEASE},
       [](const GrantFds& g) {
         return std::vector{g.file.get(), g.lease.get()};
       }},
      {"kind from the future",
       {v1::FD_KIND_LEASE, static_cast<v1::FdKind>(77)},
       [](const GrantFds& g) {
         return std::vector{g.lease.get(), g.file.get()};
       }},
      {"descriptors swapped", kBoth,
       [](const GrantFds& g) {
         return std::vector{g.file.get(), g.lease.get()};
       }},
      {"lease is the writing end", kBoth,
       [](const GrantFds& g) {
         return std::vector{g.lease_end.get(), g.file.get()};
       }},
      {"lease is a file", kBoth,
       [](const GrantFds& g) {
         return std::vector{g.file.get(), g.file.get()};
       }},
      {"domain is a pipe", kBoth,
       [](const GrantFds& g) {
         return std::vector{g.lease.get(), g.lease.get()};
       }},
      {"lease is a socket", kBoth,
       [=](const GrantFds& g) {
         return std::vector{socket, g.file.get()};
       }},
      {"domain is an anonymous inode", kBoth,
       [=](const GrantFds& g) {
         return std::vector{g.lease.get(), event};
       }},
      {"domain is writable", kBoth,
       [=](const GrantFds& g) {
         return std::vector{g.lease.get(), writable};
       }},
      {"domain is a folder", kBoth,
       [=](const GrantFds& g) {
         return std::vector{g.lease.get(), folder};
       }},
      {"domain is only a path", kBoth,
       [=](const GrantFds& g) {
         return std::vector{g.lease.get(), path};
       }},
  };
}

TEST_F(SessionChannelTest, BadDeliveryIsRefusedAndLeavesNothing) {
  auto channel = Connect();
  UniqueFd unix_socket(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd event(eventfd(0, EFD_CLOEXEC));
  UniqueFd writable(open(dir_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  UniqueFd folder(open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  UniqueFd path(open("/proc/self/exe", O_PATH | O_CLOEXEC));
  for (const BadDelivery& bad :
       BadDeliveries(unix_socket.get(), event.get(), writable.get(), folder.get(), path.get())) {
    SCOPED_TRACE(bad.name);
    auto before = FdCensus();
    {
      GrantFds grant = MakeGrantFds(dir_, "x");
      auto expectation = channel->Expect("a");
      ASSERT_EQ(Deliver("a", 1, bad.fds(grant), bad.kinds), 0);
      grant.lease.reset();
      EXPECT_EQ(ReasonOf(expectation->Take(1, kBoth, Soon()).status()), bad.reason);
      EXPECT_FALSE(LeaseIsHeld(grant.lease_end));
    }
    EXPECT_EQ(FdCensus(), before);
    ExpectNextCallWorks(*channel);
  }
}

TEST_F(SessionChannelTest, FileLimitGivesATypedErrorAndLeavesNothing) {
  auto channel = Connect();
  for (int room : {0, 1, 2}) {
    SCOPED_TRACE(room);
    GrantFds grant = MakeGrantFds(dir_, "x");
    auto before = FdCensus();
    auto expectation = channel->Expect("a");
    ASSERT_EQ(Deliver("a", 1, {grant.lease.get(), grant.file.get()}), 0);
    {
      absl::StatusOr<std::vector<UniqueFd>> fds;
      {
        FileLimit limit(room);
        fds = expectation->Take(1, kBoth, Soon());
      }
      grant.lease.reset();
      EXPECT_EQ(fds.ok(), room == 2);
      EXPECT_EQ(ReasonOf(fds.status()),
                room < 2 ? v1::REASON_FD_NOT_DELIVERED : v1::REASON_UNSPECIFIED);
      EXPECT_EQ(LeaseIsHeld(grant.lease_end), room == 2);
    }
    EXPECT_EQ(FdCensus().size() + 1, before.size());  // The test closed one itself.
  }
  ExpectNextCallWorks(*channel);
}

TEST_F(SessionChannelTest, CutOffDeliveryIsRefusedAlsoWhereEnoughIsLeft) {
  auto channel = Connect();
  GrantFds grant = MakeGrantFds(dir_, "x");
  auto expectation = channel->Expect("a");
  ASSERT_EQ(Deliver("a", 1, {grant.lease.get(), grant.file.get(), grant.file.get()}), 0);
  absl::StatusOr<std::vector<UniqueFd>> fds;
  {
    FileLimit limit(2);
    fds = expectation->Take(1, kBoth, Soon());
  }
  EXPECT_EQ(ReasonOf(fds.status()), v1::REASON_FD_NOT_DELIVERED);
}

TEST_F(SessionChannelTest, StrangersPacketsWithoutEndDoNotHoldACallUp) {
  auto channel = Connect();
  std::atomic<bool> stop = false;
  std::thread flood([&] {
    GrantFds grant = MakeGrantFds(dir_, "x");
    while (!stop && Deliver("stranger", 1, {grant.lease.get()}, kLease) == 0) {
    }
  });
  {
    auto expectation = channel->Expect("a");
    EXPECT_EQ(ReasonOf(expectation->Take(1, kBoth, AtOnce()).status()),
              v1::REASON_FD_NOT_DELIVERED);
  }
  stop = true;
  channel.reset();  // Wakes a sender that waits for room.
  flood.join();
}

TEST_F(SessionChannelTest, EndOfTheSessionReachesWhoWaitsAndWhoComesLater) {
  auto channel = Connect();
  auto expectation = channel->Expect("a");
  peer_.reset();
  EXPECT_EQ(ReasonOf(expectation->Take(1, kBoth, Soon()).status()), v1::REASON_SESSION_GONE);
  EXPECT_EQ(ReasonOf(channel->Expect("b").status()), v1::REASON_SESSION_GONE);
  EXPECT_EQ(ReasonOf(channel->Drain()), v1::REASON_SESSION_GONE);
}

TEST_F(SessionChannelTest, EachOfManyThreadsGetsItsOwn) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 50;
  auto channel = Connect();
  int small = 1;  // The least that the kernel allows: sending waits for reading.
  setsockopt(peer_.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  auto before = FdCensus();
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    std::atomic<int> expecting = 0;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        std::string name = "thread-" + std::to_string(i);
        auto expectation = channel->Expect(name);
        ++expecting;
        auto fds = expectation->Take(static_cast<uint64_t>(i), kBoth, Soon());
        ASSERT_TRUE(fds.ok()) << fds.status();
        EXPECT_EQ(ContentOf((*fds)[1].get()), name);
      });
    }
    ASSERT_TRUE(Eventually([&] { return expecting == kThreads; }));
    for (int i = kThreads - 1; i >= 0; --i) {  // Not in the order of asking.
      std::string name = "thread-" + std::to_string(i);
      GrantFds grant = MakeGrantFds(dir_, name);
      EXPECT_EQ(Deliver(name, static_cast<uint64_t>(i), {grant.lease.get(), grant.file.get()}), 0);
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(FdCensus(), before);
}

void Ignore(int) {}

TEST_F(SessionChannelTest, SignalsDoNotEndAWait) {
  struct sigaction action {};
  action.sa_handler = Ignore;  // Without SA_RESTART: every system call is interrupted.
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  auto channel = Connect();
  std::atomic<bool> done = false;
  std::thread waiter([&] {
    auto expectation = channel->Expect("a");
    auto fds = expectation->Take(1, kBoth, Soon());
    EXPECT_TRUE(fds.ok()) << fds.status();
    done = true;
  });
  for (int i = 0; i < 50; ++i) {
    pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_FALSE(done);
  GrantFds grant = MakeGrantFds(dir_, "x");
  ASSERT_EQ(Deliver("a", 1, {grant.lease.get(), grant.file.get()}), 0);
  waiter.join();
}

}  // namespace
}  // namespace qpbroker::client
