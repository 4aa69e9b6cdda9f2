// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_TESTING_CLIENT_FIXTURE_H_
#define QPBROKER_CLIENT_SRC_TESTING_CLIENT_FIXTURE_H_

// Clients of a daemon in this process that does what the test tells it to.

#include <chrono>
#include <csignal>
#include <map>
#include <string>

#include "client/src/testing/fake_daemon.h"
#include "client/src/testing/fd_census.h"
#include "client/src/testing/grant_fds.h"
#include "gtest/gtest.h"
#include "qpbroker/client.h"

namespace qpbroker::client::testing {

class ClientFixture : public ::testing::Test {
 protected:
  ClientFixture() { std::signal(SIGPIPE, SIG_DFL); }

  Result<Client> TryConnect(std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
    return Client::Connect({.runtime_dir = daemon_.dir(), .timeout = timeout});
  }

  Client Connect() {
    Result<Client> connected = TryConnect();
    EXPECT_TRUE(connected.ok()) << connected.error().ToString();
    return *std::move(connected);
  }

  // Opens a domain honestly and gives it back: the client has survived what came before.
  void ExpectNextCallWorks(Client& client) {
    daemon_.Behave();
    Result<Xrcd> domain = client.OpenXrcd({.device = "vhca0", .name = "next"});
    ASSERT_TRUE(domain.ok()) << domain.error().ToString();
    EXPECT_EQ(ContentOf(domain->domain_fd()), "next");
    Result<uint32_t> closed = domain->Close();
    EXPECT_TRUE(closed.ok()) << closed.error().ToString();
  }

  // For clients that ended: their ends in the fake are open a little longer.
  ::testing::AssertionResult ClientsLeaveNothingBeyond(const std::map<int, std::string>& before) {
    EXPECT_TRUE(Eventually([&] { return daemon_.ForgetDeadSessions() == 0; }));
    return NothingIsOpenBeyond(before);
  }

  bool NothingIsHeld() {
    return Eventually([&] { return daemon_.HeldLeases() == 0; });
  }

  FakeDaemon daemon_;
};

}  // namespace qpbroker::client::testing

#endif  // QPBROKER_CLIENT_SRC_TESTING_CLIENT_FIXTURE_H_
