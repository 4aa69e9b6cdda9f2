// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/session_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/error_reason.h"
#include "common/seqpacket_channel.h"
#include "daemon/core/testing/fake_ports.h"
#include "qpbroker/v1/session.pb.h"

namespace qpbroker::session {
namespace {

using core::Broker;
using core::SessionId;

size_t OpenFiles() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

bool HungUp(const UniqueFd& fd) {
  pollfd poll_fd{fd.get(), 0, 0};
  return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLHUP) != 0;
}

class SessionServerTest : public ::testing::Test {
 protected:
  // The test's own user is the client.
  void Start(uint32_t sessions = 10, absl::Duration attach_timeout = absl::Hours(1)) {
    loop_ = std::make_unique<EventLoop>();
    broker_ = std::make_unique<Broker>(
        core::BrokerOptions{core::Generation(0x5f0c2a9b11d4), 0, {10, sessions, 10, 10, 10}},
        core::BrokerPorts{&leases_, &files_, &delivery_, &keeper_, &executor_, &environment_,
                          &journal_});
    server_ = std::make_unique<SessionServer>(*loop_, *broker_, delivery_, attach_timeout);
  }
  ~SessionServerTest() override {
    server_.reset();
    broker_.reset();  // Aborts if a session is still charged.
    loop_.reset();
    EXPECT_EQ(OpenFiles(), open_before_);
  }

  // The client's end of a connection that the server has adopted.
  UniqueFd Connect() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    server_->Adopt(UniqueFd(ends[1]));
    return UniqueFd(ends[0]);
  }
  v1::SessionGreeting Greeting(const UniqueFd& client) {
    ReceivedPacket packet;
    v1::SessionPacket message;
    EXPECT_EQ(ReceivePacket(client.get(), packet), 0);
    EXPECT_TRUE(message.ParseFromString(packet.bytes));
    EXPECT_TRUE(packet.fds.empty());
    return message.greeting();
  }
  core::Caller Self() {
    core::Caller caller;
    caller.identity = {geteuid(), getegid(), {}, getpid()};
    return caller;
  }
  SessionId Attach(const UniqueFd& client) {
    absl::StatusOr<SessionId> session = broker_->Attach(Self(), Greeting(client).nonce());
    EXPECT_TRUE(session.ok()) << session.status();
    return session.value_or(SessionId());
  }
  void RunUntil(const std::function<bool()>& condition) {
    bool timed_out = false;
    loop_->After(absl::Seconds(20), [&timed_out] { timed_out = true; });
    while (!condition() && !timed_out) loop_->RunOnce();
    EXPECT_FALSE(timed_out);
  }
  void RunUntilEnded(SessionId session) {
    RunUntil([&] { return server_->size() == 0; });
    v1::FdDelivery nothing;
    EXPECT_EQ(ReasonOf(delivery_.Deliver(session, nothing, {})), v1::REASON_SESSION_GONE);
  }

  const size_t open_before_ = OpenFiles();
  std::unique_ptr<EventLoop> loop_;
  core::FakeLeasePort leases_;
  core::FakeDomainFilePort files_;
  core::FakeKeeperPort keeper_;
  FdDelivery delivery_;
  core::FakeExecutor executor_;
  core::FakeEnvironment environment_;
  core::FakeJournal journal_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<SessionServer> server_;
};

TEST_F(SessionServerTest, GreetsWithVersionNameAndAFreshNonce) {
  Start();
  UniqueFd first = Connect();
  UniqueFd second = Connect();
  const v1::SessionGreeting greeting = Greeting(first);
  EXPECT_EQ(greeting.protocol_version(), 1u);
  EXPECT_EQ(greeting.nonce().size(), 16u);
  EXPECT_EQ(greeting.session(), "sessions/1@5f0c2a9b11d4");
  EXPECT_NE(greeting.nonce(), Greeting(second).nonce());
}

TEST_F(SessionServerTest, DeliversBytesAndDescriptorsInOnePacket) {
  Start();
  UniqueFd client = Connect();
  const SessionId session = Attach(client);
  UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  v1::FdDelivery delivery;
  delivery.set_grant_id(17);
  delivery.set_request_id("request");
  delivery.add_fds(v1::FD_KIND_LEASE);
  const int fds[] = {file.get()};
  ASSERT_TRUE(delivery_.Deliver(session, delivery, fds).ok());
  ReceivedPacket packet;
  ASSERT_EQ(ReceivePacket(client.get(), packet), 0);
  v1::SessionPacket message;
  ASSERT_TRUE(message.ParseFromString(packet.bytes));
  EXPECT_EQ(message.delivery().grant_id(), 17u);
  EXPECT_EQ(message.delivery().request_id(), "request");
  EXPECT_EQ(packet.fds.size(), 1u);
}

// The nonce is out once the greeting is sent: a client's first call may come before Adopt returns.
TEST_F(SessionServerTest, DeliveryIsPossibleAsSoonAsTheClientHasTheNonce) {
  Start();
  UniqueFd client = Connect();
  EXPECT_TRUE(delivery_.Deliver(Attach(client), v1::FdDelivery(), {}).ok())
      << "without the loop having run";
}

TEST_F(SessionServerTest, EndOfTheClientEndsTheSession) {
  Start();
  UniqueFd client = Connect();
  const SessionId session = Attach(client);
  EXPECT_EQ(broker_->ListSessions(Self(), {}).entries.size(), 1u);
  client.reset();
  RunUntilEnded(session);
  EXPECT_EQ(broker_->ListSessions(Self(), {}).entries.size(), 0u);
}

TEST_F(SessionServerTest, WhateverAClientSendsEndsItsSessionAndKeepsNoDescriptor) {
  Start();
  for (int fds_sent : {0, 1, 2, 253}) {
    UniqueFd client = Connect();
    const SessionId session = Attach(client);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    const std::vector<int> fds(static_cast<size_t>(fds_sent), write_end.get());
    ASSERT_EQ(SendPacket(client.get(), fds_sent == 1 ? "" : "x", fds), 0);
    RunUntilEnded(session);
    write_end.reset();
    EXPECT_TRUE(HungUp(read_end)) << "a copy is left of " << fds_sent;
    EXPECT_TRUE(HungUp(client));
  }
}

TEST_F(SessionServerTest, ClientThatDoesNotReadGetsBacklogAndNobodyWaits) {
  Start();
  UniqueFd slow = Connect();
  UniqueFd quick = Connect();
  const SessionId session = Attach(slow);
  const SessionId other = Attach(quick);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  v1::FdDelivery delivery;
  delivery.add_fds(v1::FD_KIND_LEASE);
  const int fds[] = {write_end.get()};
  absl::Status status;
  int delivered = 0;
  while (status.ok() && delivered < 100000) {
    status = delivery_.Deliver(session, delivery, fds);
    delivered += status.ok() ? 1 : 0;
  }
  EXPECT_EQ(ReasonOf(status), v1::REASON_SESSION_BACKLOG);
  EXPECT_TRUE(delivery_.Deliver(other, delivery, fds).ok());
  // What is in flight goes with the client.
  write_end.reset();
  EXPECT_FALSE(HungUp(read_end));
  slow.reset();
  quick.reset();
  RunUntil([&] { return server_->size() == 0; });
  EXPECT_TRUE(HungUp(read_end));
}

TEST_F(SessionServerTest, OverTheQuotaAConnectionIsClosed) {
  Start(2);
  UniqueFd first = Connect();
  UniqueFd second = Connect();
  UniqueFd third = Connect();
  EXPECT_EQ(server_->size(), 2u);
  EXPECT_TRUE(HungUp(third));
  const SessionId session = Attach(first);
  first.reset();
  RunUntil([&] { return server_->size() == 1; });
  EXPECT_NE(Attach(Connect()), session) << "there is room again, under another id";
}

TEST_F(SessionServerTest, SessionThatNobodyAttachesEndsAndOthersStay) {
  Start(10, absl::Milliseconds(1));
  UniqueFd idle = Connect();
  UniqueFd attached = Connect();
  Attach(attached);
  RunUntil([&] { return HungUp(idle); });
  // The timers of both sessions have the same age.
  loop_->After(absl::Milliseconds(2), [] {});
  loop_->RunOnce();
  EXPECT_EQ(server_->size(), 1u);
  EXPECT_FALSE(HungUp(attached));
}

TEST_F(SessionServerTest, EndFromOurSideHangsTheClientUp) {
  Start();
  UniqueFd client = Connect();
  const SessionId session = Attach(client);
  server_->End(session);
  server_->End(session);
  EXPECT_TRUE(HungUp(client));
}

TEST_F(SessionServerTest, ClientThatIsGoneBeforeItIsGreetedLeavesNothing) {
  Start();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  close(ends[0]);
  server_->Adopt(UniqueFd(ends[1]));
  EXPECT_EQ(server_->size(), 0u);
}

}  // namespace
}  // namespace qpbroker::session
