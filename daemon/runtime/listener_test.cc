// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/error_reason.h"

namespace qpbroker::runtime {
namespace {

namespace fs = std::filesystem;

class ListenerTest : public ::testing::Test {
 protected:
  ListenerTest() {
    char path[] = "/tmp/qpb-listener-XXXXXX";
    EXPECT_NE(mkdtemp(path), nullptr);
    directory_ = path;
    config_ = {directory_ + "/api.sock", 0660, getegid()};
  }
  ~ListenerTest() override { fs::remove_all(directory_); }

  absl::StatusOr<std::unique_ptr<Listener>> Open() {
    return Listener::Open(loop_, config_, SOCK_STREAM,
                          [this](UniqueFd fd) { accepted_.push_back(std::move(fd)); });
  }
  UniqueFd Connect() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, config_.path.c_str());
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
    return fd;
  }
  mode_t ModeOf(const std::string& path) {
    struct stat found;
    EXPECT_EQ(lstat(path.c_str(), &found), 0);
    return found.st_mode & 07777;
  }

  std::string directory_;
  SocketConfig config_;
  EventLoop loop_;
  std::vector<UniqueFd> accepted_;
};

TEST_F(ListenerTest, ModeIsTheConfiguredOneWhateverTheUmask) {
  for (mode_t mask : {mode_t{0}, mode_t{077}, mode_t{0777}}) {
    const mode_t before = umask(mask);
    auto listener = Open();
    umask(before);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(ModeOf(config_.path), 0660u);
  }
}

TEST_F(ListenerTest, AcceptsWithCloseOnExecAndWithoutBlocking) {
  auto listener = Open();
  ASSERT_TRUE(listener.ok());
  UniqueFd client = Connect();
  ASSERT_TRUE(client);
  while (accepted_.empty()) loop_.RunOnce();
  EXPECT_NE(fcntl(accepted_[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(accepted_[0].get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(ListenerTest, DeadSocketIsReplacedAndOursIsRemovedAtTheEnd) {
  { UniqueFd dead(socket(AF_UNIX, SOCK_STREAM, 0)); }
  auto first = Open();
  ASSERT_TRUE(first.ok());
  // Another daemon took the place: the first one's end must not remove the second one's socket.
  auto second = Open();
  ASSERT_TRUE(second.ok()) << second.status();
  first->reset();
  EXPECT_TRUE(Connect());
  second->reset();
  EXPECT_FALSE(fs::exists(config_.path));
}

TEST_F(ListenerTest, WhatIsNoSocketIsLeftAlone) {
  std::ofstream(config_.path) << "precious";
  auto file = Open();
  EXPECT_FALSE(file.ok());
  EXPECT_NE(std::string(file.status().message()).find("is not a socket"), std::string::npos);
  EXPECT_EQ(fs::file_size(config_.path), 8u);

  fs::remove(config_.path);
  fs::create_directory(config_.path);
  EXPECT_FALSE(Open().ok());

  fs::remove(config_.path);
  fs::create_symlink("/tmp/somebody.sock", config_.path);
  EXPECT_FALSE(Open().ok());
  EXPECT_TRUE(fs::is_symlink(config_.path));
}

TEST_F(ListenerTest, SecondInstanceIsRefusedByThePidOfTheFirst) {
  auto lock = LockRuntimeDirectory(directory_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  auto second = LockRuntimeDirectory(directory_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(std::string(second.status().message()).find(std::to_string(getpid())),
            std::string::npos);
  lock->reset();
  EXPECT_TRUE(LockRuntimeDirectory(directory_).ok());
}

TEST_F(ListenerTest, RuntimeDirectoryIsMadeForEverybodyToEnter) {
  const mode_t before = umask(077);
  const std::string made = directory_ + "/run";
  EXPECT_TRUE(LockRuntimeDirectory(made).ok());
  umask(before);
  EXPECT_EQ(ModeOf(made), 0755u);
  EXPECT_FALSE(LockRuntimeDirectory("/nonexistent/run").ok());
}

}  // namespace
}  // namespace qpbroker::runtime
