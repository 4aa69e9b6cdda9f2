// SPDX-License-Identifier: Apache-2.0
//
// What hostile and mistaken clients send: each gets its own documented reason, nothing is lost,
// nobody else notices.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "client/src/testing/fd_census.h"
#include "common/seqpacket_channel.h"
#include "common/unique_fd.h"
#include "qpbroker/client.h"
#include "qpbroker/v1/session.pb.h"
#include "tests/support/test_daemon.h"

namespace qpbroker {
namespace {

using client::testing::Eventually;
using client::testing::FdCensus;
using client::testing::NothingIsOpenBeyond;
using testing::TestDaemon;

UniqueFd ConnectTo(const std::string& path, int type) {
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

bool HungUp(int fd) {
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, 20000) == 1 && (poll_fd.revents & (POLLHUP | POLLRDHUP)) != 0;
}

class BadInputTest : public ::testing::Test {
 protected:
  BadInputTest()
      : client_(*Client::Connect({.runtime_dir = daemon_.runtime_dir()})),
        domain_(*client_.OpenXrcd({.device = "fake0", .name = "job", .create = true})) {}

  std::string Reason(const auto& result) { return result.ok() ? "OK" : result.error().reason; }
  std::string Field(const auto& result) { return result.error().metadata.at("field"); }

  // No session ends here for want of an Attach: what ends one is what the test did.
  TestDaemon daemon_{[](runtime::Config& config) { config.attach_timeout = absl::Hours(1); }};
  Client client_;
  Xrcd domain_;
};

TEST_F(BadInputTest, DevicesAndNames) {
  EXPECT_EQ(Reason(client_.OpenXrcd({.device = "nope", .name = "x", .create = true})),
            "DEVICE_NOT_FOUND");
  EXPECT_EQ(Reason(client_.OpenXrcd({.device = "../../x", .name = "x"})), "INVALID_FIELD");
  EXPECT_EQ(Reason(client_.OpenXrcd({.device = "fake0", .name = std::string(10000, 'n')})),
            "INVALID_FIELD");
  EXPECT_EQ(Reason(client_.OpenXrcd({.device = "fake0", .name = std::string("a\0b", 3)})),
            "INVALID_FIELD");
  EXPECT_EQ(Reason(client_.OpenXrcd({.device = "fake0", .name = ""})), "MISSING_FIELD");
  EXPECT_EQ(Reason(client_.OpenXrcd({.device = "fake0", .name = "other"})), "XRCD_NOT_FOUND");
  EXPECT_EQ(
      Reason(client_.OpenXrcd({.device = "fake0", .name = "x", .create = true, .mode = 01777})),
      "INVALID_FIELD");
  EXPECT_EQ(Reason(client_.OpenXrcd(
                {.device = "fake0", .name = "x", .create = true, .request_id = "a b"})),
            "INVALID_FIELD");
  EXPECT_EQ(Reason(client_.OpenXrcd({.device = "fake0", .owner_uid = 4242, .name = "x"})),
            "PERMISSION_DENIED");
}

TEST_F(BadInputTest, QpNumbersAndKeys) {
  for (uint32_t number : {0u, 1u << 24, 0xffffffffu}) {
    EXPECT_EQ(Reason(client_.OpenQp(domain_.name(), number)), "INVALID_FIELD") << number;
  }
  EXPECT_EQ(Reason(client_.OpenQp(domain_.name(), 0x800001u)), "QP_NOT_FOUND");
  EXPECT_EQ(Reason(client_.OpenQp(domain_.name(), "no such key")), "INVALID_FIELD");
  EXPECT_EQ(Reason(client_.OpenQp(domain_.name(), "nobody")), "QP_NOT_FOUND");
  EXPECT_EQ(Reason(client_.OpenQp("not a name", 0x800001u)), "INVALID_FIELD");
  // A QP of another domain is none of this one's.
  Xrcd other = *client_.OpenXrcd({.device = "fake0", .name = "other", .create = true});
  Qp qp = *client_.CreateQp(other.name());
  EXPECT_EQ(Reason(client_.OpenQp(domain_.name(), qp.number())), "QP_NOT_FOUND");
}

TEST_F(BadInputTest, ConnectionsToNowhere) {
  Qp qp = *client_.CreateQp(domain_.name());
  auto field = [&](auto change) {
    ConnectQpOptions connect;
    connect.remote = {.qp_num = 0x4711, .psn = 5, .path = {.dlid = 7}};
    change(connect);
    auto result = client_.ConnectQp(qp.name(), connect);
    return result.ok() ? "OK" : Field(result);
  };
  EXPECT_EQ(field([](auto& c) { c.remote.qp_num = 1u << 24; }), "remote.qp_num");
  EXPECT_EQ(field([](auto& c) { c.remote.psn = 1u << 24; }), "remote.psn");
  EXPECT_EQ(field([](auto& c) { c.remote.path.service_level = 16; }), "path.service_level");
  EXPECT_EQ(field([](auto& c) { c.remote.path.rate_mbps = 7; }), "path.rate_mbps");
  EXPECT_EQ(field([](auto& c) { c.path_mtu = 1500; }), "path_mtu");
  EXPECT_EQ(field([](auto& c) { c.pkey = 0x10000; }), "pkey");
  EXPECT_EQ(field([](auto& c) { c.timeout = 32; }), "timeout");
  EXPECT_EQ(field([](auto&) {}), "OK");
}

TEST_F(BadInputTest, LeasesClosedTwice) {
  Qp qp = *client_.CreateQp(domain_.name());
  EXPECT_TRUE(qp.Close().ok());
  EXPECT_EQ(Reason(qp.Close()), "LEASE_NOT_FOUND");
}

TEST_F(BadInputTest, WhoeverWritesToTheSessionSocketLosesTheSession) {
  const auto before = FdCensus();
  {
    UniqueFd session = ConnectTo(daemon_.runtime_dir() + "/session.sock", SOCK_SEQPACKET);
    ReceivedPacket greeting;
    ASSERT_EQ(ReceivePacket(session.get(), greeting), 0);
    v1::SessionPacket packet;
    ASSERT_TRUE(packet.ParseFromString(greeting.bytes));
    EXPECT_EQ(packet.greeting().nonce().size(), 16u);
    // Descriptors that the daemon did not ask for: it must not keep them.
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    UniqueFd read_end(ends[0]);
    const int fds[] = {ends[1], ends[1], ends[1]};
    ASSERT_EQ(SendPacket(session.get(), "hello", fds), 0);
    close(ends[1]);
    EXPECT_TRUE(HungUp(read_end.get())) << "the daemon keeps a copy";
    EXPECT_TRUE(HungUp(session.get()));
  }
  EXPECT_TRUE(client_.WhoAmI().ok()) << "nobody else notices";
  EXPECT_TRUE(NothingIsOpenBeyond(before));
}

TEST_F(BadInputTest, GarbageOnTheApiSocketEndsThatConnectionOnly) {
  const auto before = FdCensus();
  for (int i = 0; i < 20; ++i) {
    UniqueFd api = ConnectTo(daemon_.runtime_dir() + "/api.sock", SOCK_STREAM);
    const std::string garbage = "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(1000, '\xff');
    ASSERT_GT(send(api.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  }
  EXPECT_TRUE(client_.WhoAmI().ok());
  EXPECT_TRUE(NothingIsOpenBeyond(before));
}

// Its own daemon: the others should not end after 100 ms.
TEST(AttachTimeoutTest, SessionThatNobodyAttachesEnds) {
  TestDaemon daemon(
      [](runtime::Config& config) { config.attach_timeout = absl::Milliseconds(100); });
  UniqueFd session = ConnectTo(daemon.runtime_dir() + "/session.sock", SOCK_SEQPACKET);
  ReceivedPacket greeting;
  ASSERT_EQ(ReceivePacket(session.get(), greeting), 0);
  EXPECT_TRUE(HungUp(session.get()));
}

}  // namespace
}  // namespace qpbroker
