// SPDX-License-Identifier: Apache-2.0
//
// The n-th system call fails, in the daemon or in the client, for n = 1, 2, 3 ... until the
// operation goes through without meeting the fault. After each failure nothing is left: no
// reference, no descriptor on either side; and the same operation then works on a fresh connection.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/src/testing/fd_census.h"
#include "qpbroker/client.h"
#include "tests/support/fault_calls.h"
#include "tests/support/test_daemon.h"

namespace qpbroker {
namespace {

using client::testing::Eventually;
using client::testing::FdCensus;
using client::testing::NothingIsOpenBeyond;
using testing::ClearFault;
using testing::FailNth;
using testing::NameOf;
using testing::SystemCall;
using testing::TestDaemon;

struct Fault {
  SystemCall call;
  int errno_value;
};
constexpr Fault kFaults[] = {
    {SystemCall::kSendmsg, EAGAIN},       {SystemCall::kSendmsg, ETOOMANYREFS},
    {SystemCall::kSendmsg, EPIPE},        {SystemCall::kRecvmsg, ENOMEM},
    {SystemCall::kRecvmsg, ECONNRESET},   {SystemCall::kPipe2, EMFILE},
    {SystemCall::kAccept4, EMFILE},       {SystemCall::kAccept4, ENOMEM},
    {SystemCall::kAccept4, ECONNABORTED}, {SystemCall::kOpenat, ENOSPC},
    {SystemCall::kOpen, EMFILE},          {SystemCall::kEpollCtl, ENOSPC},
    {SystemCall::kFcntl, EMFILE},
};

class FaultSweepTest : public ::testing::Test {
 protected:
  using Operation = std::function<std::optional<Error>(Client& client)>;

  std::optional<Error> Run(const Operation& operation) {
    Result<Client> client = Client::Connect(
        {.runtime_dir = daemon_.runtime_dir(), .timeout = std::chrono::seconds(10)});
    if (!client.ok()) return client.error();
    return operation(*client);
  }

  // `met`: the calls that the operation is known to make, each of which must have failed at least
  // once.
  void Sweep(const std::vector<SystemCall>& met, const Operation& operation) {
    std::set<SystemCall> failed;
    std::optional<Error> first = Run(operation);
    ASSERT_FALSE(first) << first->ToString();
    ASSERT_TRUE(AwaitNothingHeld());
    const auto before = FdCensus();
    for (const Fault& fault : kFaults) {
      for (int n = 1; n < 40; ++n) {
        FailNth(fault.call, n, fault.errno_value);
        std::optional<Error> error = Run(operation);
        const bool happened = ClearFault();
        const std::string what = std::string(NameOf(fault.call)) + " #" + std::to_string(n) + ": " +
                                 (error ? error->ToString() : "OK");
        EXPECT_TRUE(!error || error->reason != "INTERNAL") << what;
        EXPECT_TRUE(AwaitNothingHeld()) << what;
        EXPECT_TRUE(NothingIsOpenBeyond(before)) << what;
        std::optional<Error> retried = Run(operation);
        EXPECT_FALSE(retried) << what << "; then " << retried->ToString();
        if (HasFailure()) return;
        if (!happened) break;
        failed.insert(fault.call);
        ASSERT_LT(n, 39) << what << ": never without the fault";
      }
    }
    for (SystemCall call : met) EXPECT_TRUE(failed.contains(call)) << NameOf(call);
  }

  bool AwaitNothingHeld() {
    return Eventually(
        [this] { return daemon_.kernel().qps() == 0 && daemon_.kernel().xrcds() == 0; });
  }

  TestDaemon daemon_;
};

std::optional<Error> ErrorOf(const auto& result) {
  return result.ok() ? std::nullopt : std::optional<Error>(result.error());
}

const std::vector<SystemCall> kOfConnecting = {SystemCall::kSendmsg, SystemCall::kRecvmsg,
                                               SystemCall::kAccept4, SystemCall::kEpollCtl,
                                               SystemCall::kFcntl};
const std::vector<SystemCall> kOfOpening = {SystemCall::kSendmsg, SystemCall::kRecvmsg,
                                            SystemCall::kPipe2,   SystemCall::kOpenat,
                                            SystemCall::kOpen,    SystemCall::kEpollCtl};

TEST_F(FaultSweepTest, Connect) {
  Sweep(kOfConnecting, [](Client& client) { return ErrorOf(client.WhoAmI()); });
}

TEST_F(FaultSweepTest, OpenXrcd) {
  Sweep(kOfOpening, [](Client& client) {
    return ErrorOf(client.OpenXrcd({.device = "fake0", .name = "job", .create = true}));
  });
}

TEST_F(FaultSweepTest, EveryOtherCall) {
  Sweep(kOfOpening, [](Client& client) -> std::optional<Error> {
    Result<Xrcd> domain = client.OpenXrcd({.device = "fake0", .name = "job", .create = true});
    if (!domain.ok()) return domain.error();
    Result<Qp> qp = client.CreateQp(domain->name(), {.key = "a0"});
    if (!qp.ok()) return qp.error();
    Result<Qp> opened = client.OpenQp(domain->name(), qp->number());
    if (!opened.ok()) return opened.error();
    ConnectQpOptions connect;
    connect.remote = {.qp_num = 0x4711, .psn = 5, .path = {.dlid = 7}};
    if (auto error = ErrorOf(client.ConnectQp(qp->name(), connect))) return error;
    if (auto error = ErrorOf(client.QueryQp(qp->name()))) return error;
    if (auto error = ErrorOf(client.ListDomainQps(domain->name()))) return error;
    if (auto error = ErrorOf(client.DestroyQp(qp->name()))) return error;
    if (auto error = ErrorOf(opened->Close())) return error;
    if (auto error = ErrorOf(client.DestroyXrcd(domain->name()))) return error;
    return std::nullopt;
  });
}

}  // namespace
}  // namespace qpbroker
