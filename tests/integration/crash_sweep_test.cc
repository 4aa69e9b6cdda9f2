// SPDX-License-Identifier: Apache-2.0
//
// A client is killed before and behind each system call by which it opens, uses and closes. After
// each death the counts are 0, the domain is gone and can be made anew.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "client/src/testing/fd_census.h"
#include "tests/support/test_daemon.h"

namespace qpbroker {
namespace {

using client::testing::Eventually;
using client::testing::FdCensus;
using client::testing::NothingIsOpenBeyond;

// The wait status of a client that is to die at `point`.
int RunClient(const std::string& runtime_dir, int point) {
  const std::string point_text = std::to_string(point);
  const pid_t child = fork();
  if (child == 0) {
    execl("tests/integration/crash_client", "crash_client", runtime_dir.c_str(), "fake0",
          point_text.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(CrashSweepTest, EachPointOfAClientsLife) {
  testing::TestDaemon daemon;
  ASSERT_EQ(RunClient(daemon.runtime_dir(), -1), 0);
  const auto before = FdCensus();
  int point = 0;
  for (;; ++point) {
    ASSERT_LT(point, 1000) << "the job is never done";
    const int status = RunClient(daemon.runtime_dir(), point);
    EXPECT_TRUE(Eventually([&] {
      return daemon.kernel().qps() == 0 && daemon.kernel().xrcds() == 0;
    })) << "killed at point "
        << point;
    EXPECT_TRUE(NothingIsOpenBeyond(before)) << "killed at point " << point;
    if (status == 0) break;
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << point << ": " << status;
  }
  EXPECT_GT(point, 20) << "fewer points than calls that deliver";
}

}  // namespace
}  // namespace qpbroker
