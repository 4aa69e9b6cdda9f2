// SPDX-License-Identifier: Apache-2.0
// Devices and domains.

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "tests/contract/contract.h"

namespace qpbroker::verbs {
namespace {

TEST_F(ContractTest, TheDeviceIsListed) {
  auto names = verbs().ListDevices();
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_NE(std::find(names->begin(), names->end(), backend().device), names->end());
}

TEST_F(ContractTest, OpeningADeviceThatIsNotThereSaysSo) {
  auto device = verbs().OpenDevice("no_such_device");
  EXPECT_TRUE(FailsWith(device.status(), v1::REASON_DEVICE_NOT_FOUND, "ENODEV"));
}

TEST_F(ContractTest, ADeviceTellsItsLimitsAndPorts) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.name, backend().device);
  EXPECT_GT(info.max_qp, 0u);
  EXPECT_GT(info.max_dest_rd_atomic, 0u);
  EXPECT_EQ(info.xrc_unsupported_reason, "");
  EXPECT_GE(device_->context_fd(), 0);

  auto ports = device_->QueryPorts();
  ASSERT_TRUE(ports.ok()) << ports.status();
  ASSERT_FALSE(ports->empty());
  for (size_t i = 0; i < ports->size(); ++i) {
    EXPECT_EQ((*ports)[i].number, i + 1);
    EXPECT_FALSE((*ports)[i].pkeys.empty());
  }
}

TEST_F(ContractTest, WithoutAnEventTheDescriptorIsQuietAndNextEventDoesNotBlock) {
  pollfd poll_fd = {device_->event_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&poll_fd, 1, 0), 0);
  auto event = device_->NextEvent();
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_FALSE(event->has_value());
}

TEST_F(ContractTest, OpeningADomainThatIsNotThereSaysSo) {
  auto xrcd = device_->OpenXrcd(file_.fd(), OpenXrcdMode::kExisting);
  EXPECT_TRUE(FailsWith(xrcd.status(), v1::REASON_XRCD_NOT_FOUND, "EAGAIN"));
}

TEST_F(ContractTest, CreatingADomainThatIsThereOpensIt) {
  auto first = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
  auto second = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
  auto qp = CreateQp(*first);
  EXPECT_NE(OpenQp(*second, qp->number()), nullptr);
}

TEST_F(ContractTest, CreatingADomainExclusivelyFailsWhileItIsThere) {
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive);
  auto again = device_->OpenXrcd(file_.fd(), OpenXrcdMode::kCreateExclusive);
  EXPECT_TRUE(FailsWith(again.status(), v1::REASON_XRCD_EXISTS, "EINVAL"));

  EXPECT_TRUE(xrcd->Close().ok());
  EXPECT_NE(OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive), nullptr);
}

TEST_F(ContractTest, ADomainLivesWhileAnyHandleOfItIsOpen) {
  auto other_device = OpenDevice();
  auto creator = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive);
  auto other = OpenXrcd(*other_device, file_.fd(), OpenXrcdMode::kExisting);
  EXPECT_TRUE(creator->Close().ok());
  EXPECT_NE(OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kExisting), nullptr);

  EXPECT_TRUE(other->Close().ok());
  auto xrcd = device_->OpenXrcd(file_.fd(), OpenXrcdMode::kExisting);
  EXPECT_TRUE(FailsWith(xrcd.status(), v1::REASON_XRCD_NOT_FOUND, "EAGAIN"));
}

TEST_F(ContractTest, ClosingADomainTwiceIsFine) {
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreate);
  EXPECT_TRUE(xrcd->Close().ok());
  EXPECT_TRUE(xrcd->Close().ok());
}

TEST_F(ContractTest, TheInodeIsTheDomainWhateverItsPathAndMode) {
  auto other_device = OpenDevice();
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive);
  auto qp = CreateQp(*xrcd);

  const std::string link_path = file_.path() + "-link";
  ASSERT_EQ(link(file_.path().c_str(), link_path.c_str()), 0);
  UniqueFd linked(open(link_path.c_str(), O_RDONLY | O_CLOEXEC));
  unlink(link_path.c_str());
  UniqueFd read_only = file_.Reopen(O_RDONLY);
  for (int fd : {linked.get(), read_only.get()}) {
    auto joined = OpenXrcd(*other_device, fd, OpenXrcdMode::kExisting);
    ASSERT_NE(joined, nullptr);
    EXPECT_NE(OpenQp(*joined, qp->number()), nullptr);
  }
}

TEST_F(ContractTest, AFileMadeAgainAtTheSamePathIsAnotherDomain) {
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive);
  auto qp = CreateQp(*xrcd);
  file_.Recreate();
  auto missing = device_->OpenXrcd(file_.fd(), OpenXrcdMode::kExisting);
  EXPECT_TRUE(FailsWith(missing.status(), v1::REASON_XRCD_NOT_FOUND, "EAGAIN"));

  auto other = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive);
  EXPECT_TRUE(
      FailsWith(other->OpenTargetQp(qp->number()).status(), v1::REASON_QP_NOT_FOUND, "EINVAL"));
}

TEST_F(ContractTest, AnUnlinkedFileNamesADomain) {
  unlink(file_.path().c_str());
  auto xrcd = OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kCreateExclusive);
  ASSERT_NE(xrcd, nullptr);
  EXPECT_NE(OpenXrcd(*device_, file_.fd(), OpenXrcdMode::kExisting), nullptr);
}

TEST_F(ContractTest, AMemoryFileNamesADomain) {
  UniqueFd memory(memfd_create("xrcd", MFD_CLOEXEC));
  auto xrcd = OpenXrcd(*device_, memory.get(), OpenXrcdMode::kCreateExclusive);
  ASSERT_NE(xrcd, nullptr);
  UniqueFd other_memory(memfd_create("xrcd", MFD_CLOEXEC));
  auto other = device_->OpenXrcd(other_memory.get(), OpenXrcdMode::kExisting);
  EXPECT_TRUE(FailsWith(other.status(), v1::REASON_XRCD_NOT_FOUND, "EAGAIN"));
}

TEST_F(ContractTest, TheDescriptorMayBeClosedOnceTheDomainIsOpen) {
  UniqueFd fd = file_.Reopen(O_RDONLY);
  auto xrcd = OpenXrcd(*device_, fd.get(), OpenXrcdMode::kCreateExclusive);
  fd.reset();
  auto qp = CreateQp(*xrcd);
  EXPECT_NE(OpenQp(*xrcd, qp->number()), nullptr);
}

TEST_F(ContractTest, DescriptorsThatCannotNameADomainAreRefused) {
  int pipe_ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  const UniqueFd pipe_read(pipe_ends[0]), pipe_write(pipe_ends[1]);
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  const UniqueFd socket_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const UniqueFd directory(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd path_only = file_.Reopen(O_PATH);
  const struct {
    const char* what;
    int fd;
    const char* errno_name;
  } kCases[] = {
      {"eventfd", event.get(), "EINVAL"},    {"pipe", pipe_read.get(), "EINVAL"},
      {"socket", socket_fd.get(), "EINVAL"}, {"directory", directory.get(), "EINVAL"},
      {"device", null.get(), "EINVAL"},      {"O_PATH", path_only.get(), "EBADF"},
      {"no descriptor", -1, "EBADF"},        {"closed descriptor", 1 << 20, "EBADF"},
  };
  for (const auto& bad : kCases) {
    SCOPED_TRACE(bad.what);
    for (OpenXrcdMode mode : {OpenXrcdMode::kExisting, OpenXrcdMode::kCreate}) {
      auto xrcd = device_->OpenXrcd(bad.fd, mode);
      EXPECT_TRUE(FailsWith(xrcd.status(), v1::REASON_INVALID_FIELD, bad.errno_name));
    }
  }
}

}  // namespace
}  // namespace qpbroker::verbs
