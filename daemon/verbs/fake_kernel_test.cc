// SPDX-License-Identifier: Apache-2.0
// What a test can do to the fake. Its rules as a kernel are tested by the contract.
#include "daemon/verbs/fake_kernel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/unique_fd.h"
#include "daemon/verbs/fake_verbs.h"

namespace qpbroker::verbs {
namespace {

testing::AssertionResult FailsWith(const absl::Status& status, v1::Reason reason,
                                   const char* errno_name) {
  if (ReasonOf(status) == reason && status.code() == ReasonEntryOf(reason).code &&
      ErrnoNameOf(status) == errno_name) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << status.ToString() << " " << ErrnoNameOf(status);
}

bool IsReadable(int fd) {
  pollfd poll_fd = {fd, POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 1;
}

class FakeKernelTest : public testing::Test {
 protected:
  // The handles of one process that holds a QP.
  struct Holder {
    std::unique_ptr<Device> device;
    std::unique_ptr<Xrcd> xrcd;
    std::unique_ptr<TargetQp> qp;
  };

  FakeKernelTest() { kernel_.AddDevice({.name = "fake0", .max_qp = 4}); }

  Holder Create(FakeVerbs& process) {
    Holder holder;
    holder.device = *process.OpenDevice("fake0");
    holder.xrcd = *holder.device->OpenXrcd(file_.get(), OpenXrcdMode::kCreate);
    holder.qp = *holder.xrcd->CreateTargetQp();
    return holder;
  }

  Holder Open(FakeVerbs& process, uint32_t number) {
    Holder holder;
    holder.device = *process.OpenDevice("fake0");
    holder.xrcd = *holder.device->OpenXrcd(file_.get(), OpenXrcdMode::kExisting);
    holder.qp = *holder.xrcd->OpenTargetQp(number);
    return holder;
  }

  static AsyncEvent QpFatal(uint32_t number) {
    return {.kind = AsyncEventKind::kQpFatal, .qp_num = number};
  }

  FakeKernel kernel_;
  FakeVerbs daemon_{kernel_};
  FakeVerbs client_{kernel_};
  UniqueFd file_{memfd_create("xrcd", MFD_CLOEXEC)};
};

TEST_F(FakeKernelTest, CountsWhatThereIs) {
  EXPECT_EQ(kernel_.contexts() + kernel_.xrcds() + kernel_.qps(), 0u);
  {
    Holder creator = Create(daemon_);
    Holder opener = Open(client_, creator.qp->number());
    EXPECT_EQ(kernel_.contexts(), 2u);
    EXPECT_EQ(kernel_.xrcds(), 1u);
    ASSERT_EQ(kernel_.qps(), 1u);
    EXPECT_EQ(kernel_.ListQps()[0].device, "fake0");
    EXPECT_EQ(kernel_.ListQps()[0].number, creator.qp->number());
    EXPECT_EQ(kernel_.ListQps()[0].handles, 2);
  }
  EXPECT_EQ(kernel_.contexts() + kernel_.xrcds() + kernel_.qps(), 0u);
}

TEST_F(FakeKernelTest, AFullDeviceSaysSo) {
  Holder holder = Create(daemon_);
  std::vector<std::unique_ptr<TargetQp>> qps;
  for (int i = 1; i < 4; ++i) qps.push_back(*holder.xrcd->CreateTargetQp());
  EXPECT_TRUE(FailsWith(holder.xrcd->CreateTargetQp().status(), v1::REASON_DEVICE_LIMIT, "ENOMEM"));
  qps.pop_back();
  EXPECT_TRUE(holder.xrcd->CreateTargetQp().ok());
}

TEST_F(FakeKernelTest, AFreedNumberIsNotGivenOutAtOnce) {
  Holder holder = Create(daemon_);
  std::set<uint32_t> numbers = {holder.qp->number()};
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(numbers.insert((*holder.xrcd->CreateTargetQp())->number()).second);
  }
}

TEST_F(FakeKernelTest, ADeviceWithoutXrcOpensAndSaysWhyItCannot) {
  kernel_.AddDevice({.name = "rxe0", .xrc_supported = false});
  auto device = *daemon_.OpenDevice("rxe0");
  EXPECT_FALSE(device->info().xrc_supported);
  EXPECT_NE(device->info().xrc_unsupported_reason, "");
  auto xrcd = device->OpenXrcd(file_.get(), OpenXrcdMode::kCreate);
  EXPECT_TRUE(FailsWith(xrcd.status(), v1::REASON_XRC_NOT_SUPPORTED, ""));
}

TEST_F(FakeKernelTest, AKilledProcessLosesItsHandlesAndNoOthers) {
  Holder creator = Create(daemon_);
  Holder opener = Open(client_, creator.qp->number());
  daemon_.Kill();
  EXPECT_EQ(kernel_.contexts(), 1u);
  EXPECT_TRUE(opener.qp->Query().ok());
  EXPECT_EQ(kernel_.ListQps()[0].handles, 1);

  const int calls = kernel_.calls_made();
  EXPECT_TRUE(FailsWith(creator.qp->Query().status(), v1::REASON_DEVICE_ERROR, "EBADF"));
  EXPECT_TRUE(creator.qp->Destroy().ok());
  creator = {};
  EXPECT_EQ(kernel_.calls_made(), calls);

  Holder again = Open(daemon_, opener.qp->number());
  EXPECT_EQ(kernel_.ListQps()[0].handles, 2);
  client_.Kill();
  EXPECT_TRUE(again.qp->Query().ok());
  daemon_.Kill();
  EXPECT_EQ(kernel_.qps() + kernel_.xrcds() + kernel_.contexts(), 0u);
}

TEST_F(FakeKernelTest, ACopyOfTheContextDescriptorKeepsADeadProcessesQps) {
  Holder creator = Create(daemon_);
  const uint32_t number = creator.qp->number();
  UniqueFd kept(fcntl(creator.device->context_fd(), F_DUPFD_CLOEXEC, 0));
  daemon_.Kill();
  EXPECT_EQ(kernel_.qps(), 1u);

  Holder successor = Open(daemon_, number);
  EXPECT_EQ(kernel_.ListQps()[0].handles, 2);
  kept.reset();
  EXPECT_EQ(kernel_.ListQps()[0].handles, 1);
  EXPECT_TRUE(successor.qp->Query().ok());
  successor.qp.reset();
  EXPECT_EQ(kernel_.qps(), 0u);
}

TEST_F(FakeKernelTest, AQpEventGoesToTheCreatingHandleOnly) {
  Holder creator = Create(daemon_);
  Holder opener = Open(client_, creator.qp->number());
  kernel_.RaiseEvent("fake0", QpFatal(creator.qp->number()));
  EXPECT_EQ(opener.qp->Query()->state, QpState::kErr);
  EXPECT_FALSE(IsReadable(opener.device->event_fd()));
  ASSERT_TRUE(IsReadable(creator.device->event_fd()));
  std::optional<AsyncEvent> event = *creator.device->NextEvent();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, AsyncEventKind::kQpFatal);
  EXPECT_EQ(event->qp_num, creator.qp->number());
  EXPECT_FALSE(IsReadable(creator.device->event_fd()));
  EXPECT_FALSE(creator.device->NextEvent()->has_value());

  EXPECT_TRUE(creator.qp->Destroy().ok());
  kernel_.RaiseEvent("fake0", QpFatal(opener.qp->number()));
  EXPECT_FALSE(IsReadable(creator.device->event_fd()));
  EXPECT_FALSE(IsReadable(opener.device->event_fd()));
}

TEST_F(FakeKernelTest, DestroyingAQpDropsItsWaitingEvents) {
  Holder creator = Create(daemon_);
  kernel_.RaiseEvent("fake0", QpFatal(creator.qp->number()));
  kernel_.SetPortState("fake0", 1, PortState::kDown);
  EXPECT_TRUE(creator.qp->Destroy().ok());
  EXPECT_EQ((*creator.device->NextEvent())->kind, AsyncEventKind::kPortDown);
  EXPECT_FALSE(IsReadable(creator.device->event_fd()));
}

TEST_F(FakeKernelTest, PortEventsReachEveryContext) {
  auto first = *daemon_.OpenDevice("fake0");
  auto second = *client_.OpenDevice("fake0");
  kernel_.SetPortState("fake0", 1, PortState::kDown);
  kernel_.SetPortState("fake0", 1, PortState::kInit);
  kernel_.SetPortState("fake0", 1, PortState::kActive);
  for (Device* device : {first.get(), second.get()}) {
    EXPECT_EQ((*device->NextEvent())->kind, AsyncEventKind::kPortDown);
    EXPECT_EQ((*device->NextEvent())->kind, AsyncEventKind::kPortActive);
    EXPECT_FALSE(device->NextEvent()->has_value());
  }
  EXPECT_EQ((*first->QueryPorts())[0].state, PortState::kActive);
}

TEST_F(FakeKernelTest, OfARemovedDeviceHandlesCanOnlyBeLetGo) {
  Holder holder = Create(daemon_);
  kernel_.RemoveDevice("fake0");
  EXPECT_EQ((*holder.device->NextEvent())->kind, AsyncEventKind::kDeviceFatal);
  constexpr auto kGone = v1::REASON_DEVICE_GONE;
  EXPECT_TRUE(FailsWith(holder.qp->Query().status(), kGone, "EIO"));
  EXPECT_TRUE(FailsWith(holder.qp->Modify({}, kQpAttrState), kGone, "EIO"));
  EXPECT_TRUE(FailsWith(holder.xrcd->CreateTargetQp().status(), kGone, "EIO"));
  EXPECT_TRUE(FailsWith(holder.xrcd->OpenTargetQp(holder.qp->number()).status(), kGone, "EIO"));
  EXPECT_TRUE(FailsWith(holder.device->QueryPorts().status(), kGone, "EIO"));
  auto xrcd = holder.device->OpenXrcd(file_.get(), OpenXrcdMode::kCreate);
  EXPECT_TRUE(FailsWith(xrcd.status(), kGone, "EIO"));
  EXPECT_TRUE(
      FailsWith(daemon_.OpenDevice("fake0").status(), v1::REASON_DEVICE_NOT_FOUND, "ENODEV"));
  EXPECT_TRUE(holder.qp->Destroy().ok());
  EXPECT_TRUE(holder.xrcd->Close().ok());

  // What is plugged in again is another device.
  kernel_.AddDevice({.name = "fake0"});
  Holder after = Create(daemon_);
  EXPECT_EQ(kernel_.qps(), 1u);
  EXPECT_TRUE(FailsWith(holder.device->QueryPorts().status(), kGone, "EIO"));
}

TEST_F(FakeKernelTest, TheNthCallFailsAndDoesNothing) {
  Holder holder = Create(daemon_);
  kernel_.FailNthCall(2, EBUSY);
  EXPECT_TRUE(holder.qp->Query().ok());
  EXPECT_TRUE(FailsWith(holder.qp->Destroy(), v1::REASON_DEVICE_ERROR, "EBUSY"));
  EXPECT_EQ(kernel_.qps(), 1u);
  EXPECT_TRUE(holder.qp->Destroy().ok());
  EXPECT_EQ(kernel_.qps(), 0u);
}

TEST_F(FakeKernelTest, EveryFailureOfASetupLeavesNothing) {
  auto set_up = [&]() -> absl::Status {
    auto device = daemon_.OpenDevice("fake0");
    if (!device.ok()) return device.status();
    auto xrcd = (*device)->OpenXrcd(file_.get(), OpenXrcdMode::kCreate);
    if (!xrcd.ok()) return xrcd.status();
    return (*xrcd)->CreateTargetQp().status();
  };
  int failures = 0;
  for (int n = 1;; ++n) {
    kernel_.FailNthCall(n, ENOSPC);
    absl::Status status = set_up();
    kernel_.ClearFaults();
    EXPECT_EQ(kernel_.qps() + kernel_.xrcds() + kernel_.contexts(), 0u) << n;
    if (status.ok()) break;
    ++failures;
  }
  EXPECT_EQ(failures, 3);
}

TEST_F(FakeKernelTest, ABlockedCallWaitsAndOthersDoNot) {
  Holder holder = Create(daemon_);
  kernel_.Block(Call::kDestroyQp);
  std::thread slow([&] { EXPECT_TRUE(holder.qp->Destroy().ok()); });
  kernel_.AwaitBlocked(Call::kDestroyQp);
  EXPECT_EQ(kernel_.qps(), 1u);
  EXPECT_TRUE(holder.device->QueryPorts().ok());
  kernel_.Unblock(Call::kDestroyQp);
  slow.join();
  EXPECT_EQ(kernel_.qps(), 0u);
}

TEST_F(FakeKernelTest, ErrnosOfTheRdmaCgroupAndOfFullTablesAreLimits) {
  auto device = *daemon_.OpenDevice("fake0");
  auto open = [&](int errno_value, OpenXrcdMode mode) {
    kernel_.FailNthCall(1, errno_value);
    return device->OpenXrcd(file_.get(), mode).status();
  };
  EXPECT_TRUE(FailsWith(open(EAGAIN, OpenXrcdMode::kCreate), v1::REASON_DAEMON_LIMIT, "EAGAIN"));
  EXPECT_TRUE(
      FailsWith(open(EAGAIN, OpenXrcdMode::kExisting), v1::REASON_XRCD_NOT_FOUND, "EAGAIN"));
  EXPECT_TRUE(FailsWith(open(ENOMEM, OpenXrcdMode::kCreate), v1::REASON_DEVICE_LIMIT, "ENOMEM"));
  EXPECT_TRUE(FailsWith(open(EINVAL, OpenXrcdMode::kCreate), v1::REASON_DEVICE_ERROR, "EINVAL"));
  EXPECT_TRUE(FailsWith(open(EOPNOTSUPP, OpenXrcdMode::kCreate), v1::REASON_XRC_NOT_SUPPORTED,
                        "EOPNOTSUPP"));
}

TEST_F(FakeKernelTest, AGidThatWentAwayIsNamedAsTheFault) {
  Holder holder = Create(daemon_);
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.port = 1;
  ASSERT_TRUE(
      holder.qp
          ->Modify(attributes, kQpAttrState | kQpAttrPort | kQpAttrPkeyIndex | kQpAttrAccessFlags)
          .ok());
  PortInfo port = FakePort(1);
  port.gids = {Gid{}};
  kernel_.SetPort("fake0", port);
  attributes.state = QpState::kRtr;
  attributes.path_mtu = 1024;
  attributes.av.port = 1;
  attributes.av.is_global = true;
  absl::Status status =
      holder.qp->Modify(attributes, kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn |
                                        kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer);
  EXPECT_TRUE(FailsWith(status, v1::REASON_INVALID_FIELD, "ENODATA"));
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("field"), "sgid_index");
}

TEST(LaptopKernelTest, HasOneDeviceWithTwoActivePorts) {
  std::unique_ptr<FakeKernel> kernel = MakeLaptopKernel();
  FakeVerbs verbs(*kernel);
  EXPECT_EQ(*verbs.ListDevices(), std::vector<std::string>{"fake0"});
  auto device = *verbs.OpenDevice("fake0");
  auto ports = *device->QueryPorts();
  ASSERT_EQ(ports.size(), 2u);
  for (const PortInfo& port : ports) EXPECT_EQ(port.state, PortState::kActive);
}

}  // namespace
}  // namespace qpbroker::verbs
