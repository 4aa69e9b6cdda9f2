// SPDX-License-Identifier: Apache-2.0
#include "tests/support/keeper_process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "client/src/testing/fd_census.h"

namespace qpbroker::testing {
UniqueFd ConnectToKeeper(const std::string& socket_path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  if (connect(socket.get(), name, sizeof(address)) != 0) socket.reset();
  return socket;
}

KeeperProcess::KeeperProcess(const std::string& socket_path, unsigned file_limit) : pid_(fork()) {
  if (pid_ == 0) {
    const rlimit limit{file_limit, file_limit};
    if (file_limit > 0) setrlimit(RLIMIT_NOFILE, &limit);
    execl(kKeeperProgram, kKeeperProgram, socket_path.c_str(), nullptr);
    _exit(127);
  }
  EXPECT_TRUE(
      client::testing::Eventually([&] { return static_cast<bool>(ConnectToKeeper(socket_path)); }));
}

KeeperProcess::~KeeperProcess() {
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void KeeperProcess::Signal(int number) { kill(pid_, number); }

bool KeeperProcess::IsRunning() const { return waitpid(pid_, nullptr, WNOHANG) == 0; }

size_t KeeperProcess::OpenFiles() const {
  const std::filesystem::directory_iterator files("/proc/" + std::to_string(pid_) + "/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

}  // namespace qpbroker::testing
