// SPDX-License-Identifier: Apache-2.0
// What the transport does with ends that are no gRPC servers. How it talks to one that is,
// client_test shows.
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "client/src/testing/fd_census.h"
#include "client/src/transport.h"
#include "common/error_reason.h"
#include "gtest/gtest.h"
#include "qpbroker/v1/broker.pb.h"

namespace qpbroker::client {
namespace {

using std::chrono::milliseconds;
using testing::FdCensus;
using testing::NothingIsOpenBeyond;

constexpr char kMethod[] = "/qpbroker.v1.BrokerService/WhoAmI";

// A transport and the other end of its connection.
struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    peer.reset(ends[1]);
    transport = MakeTransport(UniqueFd(ends[0]));
  }

  absl::Status Call(milliseconds timeout) {
    v1::WhoAmIResponse response;
    return transport->Call(kMethod, v1::WhoAmIRequest(), &response, DeadlineAfter(timeout));
  }

  UniqueFd peer;
  std::unique_ptr<Transport> transport;
};

TEST(GrpcTransportTest, SilentPeerCostsNoMoreThanTheDeadline) {
  Pair pair;
  EXPECT_EQ(ReasonOf(pair.Call(milliseconds(50))), v1::REASON_DEADLINE_EXCEEDED);
}

TEST(GrpcTransportTest, PeerThatIsGoneIsUnreachableAndRaisesNoSignal) {
  ASSERT_NE(std::signal(SIGPIPE, SIG_DFL), SIG_ERR);
  Pair pair;
  pair.peer.reset();
  EXPECT_EQ(ReasonOf(pair.Call(std::chrono::seconds(20))), v1::REASON_DAEMON_UNREACHABLE);
  EXPECT_EQ(ReasonOf(pair.Call(std::chrono::seconds(20))), v1::REASON_DAEMON_UNREACHABLE);
}

TEST(GrpcTransportTest, PeerThatGoesInMidCallIsUnreachable) {
  Pair pair;
  std::thread peer([&] {
    std::array<char, 4096> buffer;
    while (recv(pair.peer.get(), buffer.data(), buffer.size(), 0) <= 0) std::this_thread::yield();
    pair.peer.reset();
  });
  EXPECT_EQ(ReasonOf(pair.Call(std::chrono::seconds(20))), v1::REASON_DAEMON_UNREACHABLE);
  peer.join();
}

TEST(GrpcTransportTest, PeerThatDoesNotSpeakHttp2GivesATypedError) {
  Pair pair;
  std::string garbage(1000, 'x');
  ASSERT_EQ(send(pair.peer.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 1000);
  absl::Status status = pair.Call(std::chrono::seconds(20));
  v1::Reason reason = ReasonOf(status);
  EXPECT_TRUE(reason == v1::REASON_DAEMON_UNREACHABLE || reason == v1::REASON_PROTOCOL_VIOLATION)
      << status;
}

TEST(GrpcTransportTest, AuthorityIsLocalhost) {
  Pair pair;
  EXPECT_FALSE(pair.Call(milliseconds(50)).ok());
  std::string sent(1 << 16, '\0');
  ssize_t count = recv(pair.peer.get(), sent.data(), sent.size(), 0);
  ASSERT_GT(count, 0);
  sent.resize(static_cast<size_t>(count));
  EXPECT_NE(sent.find("localhost"), std::string::npos);
  EXPECT_EQ(sent.find("test.authority"), std::string::npos);
}

TEST(GrpcTransportTest, DescriptorsStayFlat) {
  Pair other;  // Without any channel, gRPC closes descriptors of its own.
  auto before = FdCensus();
  for (int i = 0; i < 100; ++i) {
    Pair pair;
    pair.peer.reset();
    EXPECT_FALSE(pair.Call(std::chrono::seconds(20)).ok());
  }
  EXPECT_TRUE(NothingIsOpenBeyond(before));
}

}  // namespace
}  // namespace qpbroker::client
