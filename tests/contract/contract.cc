// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/contract.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "absl/status/statusor.h"
#include "common/error_reason.h"

namespace qpbroker::verbs {
namespace {

absl::Status Move(TargetQp& qp, QpState state, uint32_t mask, QpAttributes& attributes) {
  attributes.state = state;
  return qp.Modify(attributes, mask);
}

}  // namespace

testing::AssertionResult FailsWith(const absl::Status& status, v1::Reason reason,
                                   const char* errno_name) {
  if (ReasonOf(status) == reason && status.code() == ReasonEntryOf(reason).code &&
      ErrnoNameOf(status) == errno_name) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "want " << v1::Reason_Name(reason) << " " << errno_name
                                     << ", have " << v1::Reason_Name(ReasonOf(status)) << " "
                                     << ErrnoNameOf(status) << ": " << status.ToString();
}

TempFile::TempFile() {
  const char* directory = getenv("TEST_TMPDIR");
  path_ = std::string(directory != nullptr ? directory : "/tmp") + "/xrcd-XXXXXX";
  fd_.reset(mkostemp(path_.data(), O_CLOEXEC));
  EXPECT_TRUE(fd_) << path_;
}

TempFile::~TempFile() { unlink(path_.c_str()); }

UniqueFd TempFile::Reopen(int flags) const {
  UniqueFd fd(open(path_.c_str(), flags | O_CLOEXEC));
  EXPECT_TRUE(fd) << path_;
  return fd;
}

void TempFile::Recreate() {
  unlink(path_.c_str());
  fd_.reset(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  EXPECT_TRUE(fd_) << path_;
}

// The value; without it the case ends here: googletest reports what is thrown.
template <class T>
static T Need(absl::StatusOr<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}

void ContractTest::SetUp() {
  backend_ = MakeBackend();
  device_ = OpenDevice();
  ASSERT_TRUE(device_->info().xrc_supported) << device_->info().xrc_unsupported_reason;
}

std::unique_ptr<Device> ContractTest::OpenDevice() {
  auto device = verbs().OpenDevice(backend_.device);
  return Need(std::move(device));
}

std::unique_ptr<Xrcd> ContractTest::OpenXrcd(Device& device, int fd, OpenXrcdMode mode) {
  auto xrcd = device.OpenXrcd(fd, mode);
  return Need(std::move(xrcd));
}

std::unique_ptr<TargetQp> ContractTest::CreateQp(Xrcd& xrcd) {
  auto qp = xrcd.CreateTargetQp();
  return Need(std::move(qp));
}

std::unique_ptr<TargetQp> ContractTest::OpenQp(Xrcd& xrcd, uint32_t number) {
  auto qp = xrcd.OpenTargetQp(number);
  return Need(std::move(qp));
}

QpAttributes ContractTest::Attributes() {
  auto ports = device_->QueryPorts();
  EXPECT_TRUE(ports.ok() && !ports->empty()) << ports.status();
  QpAttributes attributes;
  attributes.access = kAccessRemoteWrite | kAccessRemoteRead;
  attributes.port = 1;
  attributes.path_mtu = 1024;
  attributes.timeout = 14;
  attributes.rq_psn = 0x123456;
  attributes.sq_psn = 0x654321;
  attributes.min_rnr_timer = 12;
  attributes.max_dest_rd_atomic = 4;
  attributes.dest_qp_num = 0x1234;
  attributes.av.port = 1;
  attributes.av.service_level = 3;
  attributes.av.dlid = 7;
  if (ports.ok() && ports->front().link_layer == LinkLayer::kEthernet) {
    attributes.av.dlid = 0;
    attributes.av.is_global = true;
    attributes.av.hop_limit = 64;
    attributes.av.dgid = ports->front().gids.front();
  }
  return attributes;
}

absl::Status BringTo(TargetQp& qp, QpState state, QpAttributes attributes) {
  if (state == QpState::kReset) return absl::OkStatus();
  absl::Status status = Move(qp, QpState::kInit, kToInit, attributes);
  if (!status.ok() || state == QpState::kInit) return status;
  if (state == QpState::kErr) return Move(qp, state, kQpAttrState, attributes);
  status = Move(qp, QpState::kRtr, kToRtr, attributes);
  if (!status.ok() || state == QpState::kRtr) return status;
  status = Move(qp, QpState::kRts, kToRts, attributes);
  if (!status.ok() || state == QpState::kRts) return status;
  return Move(qp, state, kQpAttrState, attributes);
}

}  // namespace qpbroker::verbs
