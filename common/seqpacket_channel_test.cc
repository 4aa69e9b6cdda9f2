// SPDX-License-Identifier: Apache-2.0
#include "common/seqpacket_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <vector>

namespace qpbroker {
namespace {

class SeqpacketChannelTest : public ::testing::Test {
 protected:
  SeqpacketChannelTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    sender_.reset(ends[0]);
    receiver_.reset(ends[1]);
  }
  UniqueFd sender_, receiver_;
};

TEST_F(SeqpacketChannelTest, DescriptorsArriveCloseOnExecAndInOrder) {
  UniqueFd null(open("/dev/null", O_RDONLY)), zero(open("/dev/zero", O_RDONLY));
  const int fds[] = {null.get(), zero.get()};
  ASSERT_EQ(SendPacket(sender_.get(), "hello", fds), 0);
  ReceivedPacket packet;
  ASSERT_EQ(ReceivePacket(receiver_.get(), packet), 0);
  EXPECT_EQ(packet.bytes, "hello");
  ASSERT_EQ(packet.fds.size(), 2u);
  struct stat sent, got;
  for (int i = 0; i < 2; ++i) {
    fstat(fds[i], &sent);
    fstat(packet.fds[i].get(), &got);
    EXPECT_EQ(sent.st_rdev, got.st_rdev);
    EXPECT_NE(fcntl(packet.fds[i].get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_FALSE(packet.fds_truncated);
}

TEST_F(SeqpacketChannelTest, PacketWithoutDescriptorsAfterOneWithThemHasNone) {
  UniqueFd null(open("/dev/null", O_RDONLY));
  const int null_fd[] = {null.get()};
  ASSERT_EQ(SendPacket(sender_.get(), "with", null_fd), 0);
  ASSERT_EQ(SendPacket(sender_.get(), "without", {}), 0);
  ReceivedPacket packet;
  ASSERT_EQ(ReceivePacket(receiver_.get(), packet), 0);
  EXPECT_EQ(packet.fds.size(), 1u);
  ASSERT_EQ(ReceivePacket(receiver_.get(), packet), 0);
  EXPECT_TRUE(packet.fds.empty());
}

TEST_F(SeqpacketChannelTest, ErrorsAreErrnosAndRaiseNoSignal) {
  ReceivedPacket packet;
  EXPECT_EQ(ReceivePacket(receiver_.get(), packet), EAGAIN);
  receiver_.reset();
  EXPECT_EQ(SendPacket(sender_.get(), "x", {}), EPIPE);
  EXPECT_EQ(ReceivePacket(sender_.get(), packet), ENODATA);
  EXPECT_EQ(SendPacket(sender_.get(), std::string(kMaxPacketBytes + 1, 'x'), {}), EMSGSIZE);
}

TEST_F(SeqpacketChannelTest, SenderNeverWaitsForAReader) {
  int error = 0;
  for (int i = 0; i < 10000 && error == 0; ++i) {
    error = SendPacket(sender_.get(), std::string(1000, 'x'), {});
  }
  EXPECT_EQ(error, EAGAIN);
}

TEST_F(SeqpacketChannelTest, DescriptorsThatDoNotFitAreReportedAndNotLeaked) {
  UniqueFd null(open("/dev/null", O_RDONLY));
  const int fds[] = {null.get(), null.get(), null.get()};
  ASSERT_EQ(SendPacket(sender_.get(), "three", fds), 0);
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit before = limit;
  limit.rlim_cur = static_cast<rlim_t>(null.get()) + 2;  // Room for one.
  setrlimit(RLIMIT_NOFILE, &limit);
  ReceivedPacket packet;
  const int error = ReceivePacket(receiver_.get(), packet);
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_EQ(error, 0);
  EXPECT_EQ(packet.bytes, "three");
  EXPECT_EQ(packet.fds.size(), 1u);
  EXPECT_TRUE(packet.fds_truncated);
}

TEST_F(SeqpacketChannelTest, LongPacketIsReportedAsCut) {
  const std::string bytes(kMaxPacketBytes + 100, 'x');
  ASSERT_EQ(send(sender_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ReceivedPacket packet;
  ASSERT_EQ(ReceivePacket(receiver_.get(), packet), 0);
  EXPECT_TRUE(packet.bytes_truncated);
  EXPECT_EQ(packet.bytes.size(), kMaxPacketBytes);
}

}  // namespace
}  // namespace qpbroker
