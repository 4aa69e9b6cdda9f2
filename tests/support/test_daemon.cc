// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_daemon.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "client/src/testing/fd_census.h"
#include "daemon/runtime/server.h"

namespace qpbroker::testing {
namespace {

// Short: a socket's path has 108 bytes, and the test runner's directories are long.
std::string MakeDirectory() {
  char path[] = "/tmp/qpb-test-XXXXXX";
  if (mkdtemp(path) == nullptr) std::abort();
  chmod(path, 0755);
  return path;
}

// The daemon takes SIGTERM by signalfd, which needs it blocked in every thread of the process.
void BlockTermination() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

TestDaemon::TestDaemon(const std::function<void(runtime::Config&)>& change)
    : runtime_dir_(MakeDirectory()) {
  BlockTermination();
  kernel_.AddDevice({.name = "fake0"});
  absl::StatusOr<runtime::Config> config = runtime::LoadConfig("", runtime_dir_);
  EXPECT_TRUE(config.ok()) << config.status();
  config->log_level = telemetry::Level::kError;
  if (change) change(*config);
  thread_ = std::thread([this, config = *config] {
    absl::Status served = runtime::Serve(config, verbs_, nullptr);
    EXPECT_TRUE(served.ok()) << served;
  });
  // The admin socket is the last to be opened, and devices are opened before or soon after it.
  EXPECT_TRUE(client::testing::Eventually([this] {
    struct stat found;
    return stat((runtime_dir_ + "/admin.sock").c_str(), &found) == 0 && kernel_.contexts() == 1;
  }));
}

TestDaemon::~TestDaemon() {
  Stop();
  std::filesystem::remove_all(runtime_dir_);
}

void TestDaemon::Stop() {
  if (!thread_.joinable()) return;
  kill(getpid(), SIGTERM);
  thread_.join();
  EXPECT_EQ(kernel_.contexts(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(runtime_dir_ + "/private"));
  EXPECT_FALSE(std::filesystem::exists(runtime_dir_ + "/api.sock"));
}

}  // namespace qpbroker::testing
