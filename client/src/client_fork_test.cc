// SPDX-License-Identifier: Apache-2.0
// What a child process inherits of the library: clean errors, and references that its copies keep.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "client/src/testing/client_fixture.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "qpbroker/client.h"

namespace qpbroker {
namespace {

using ClientForkTest = client::testing::ClientFixture;

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

TEST_F(ClientForkTest, ForkedChildGetsCleanErrorsAndDisturbsNothing) {
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

TEST_F(ClientForkTest, ForkIsSafeWhileOtherThreadsCall) {
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

TEST_F(ClientForkTest, ChildsCopyKeepsTheReference) {
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
