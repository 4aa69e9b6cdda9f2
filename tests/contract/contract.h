// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_TESTS_CONTRACT_CONTRACT_H_
#define QPBROKER_TESTS_CONTRACT_CONTRACT_H_

// What any implementation of verbs::Verbs does, as tests: domain_contract.cc, qp_contract.cc and
// state_contract.cc. They are linked twice: with the fake (contract_fake_test) and with libibverbs,
// to be run as root on a machine whose device has XRC (contract_ibv). A case that the two answer
// differently is an error of the fake.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "daemon/verbs/verbs.h"
#include "qpbroker/v1/errors.pb.h"

namespace qpbroker::verbs {

// What a process left behind that made a target QP in the domain of a file and was killed.
struct DeadCreator {
  uint32_t qp_num = 0;
  UniqueFd context_fd;  // A copy of its Device::context_fd().
};

// What the cases run against; each gets a new one.
struct Backend {
  std::shared_ptr<void> keep_alive;  // What `verbs` needs.
  std::unique_ptr<Verbs> verbs;
  std::string device;
  // Whether QP numbers have bit 23 set, as libmlx4 needs them.
  bool numbers_have_xrc_bit = false;
  // Has another process create the domain of `fd` and a QP in it, and kills that process.
  std::function<DeadCreator(int fd)> create_and_die;
};

// Defined by the program that the cases are linked into.
Backend MakeBackend();

// The status failed with `reason`, its code, and the errno of that name ("EINVAL").
testing::AssertionResult FailsWith(const absl::Status& status, v1::Reason reason,
                                   const char* errno_name);

// A file that is unlinked at the end.
class TempFile {
 public:
  TempFile();
  ~TempFile();
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  UniqueFd Reopen(int flags) const;
  // Another file in its place.
  void Recreate();

 private:
  std::string path_;
  UniqueFd fd_;
};

class ContractTest : public testing::Test {
 protected:
  void SetUp() override;

  // Without what they are to give, these end the case as failed.
  std::unique_ptr<Device> OpenDevice();
  static std::unique_ptr<Xrcd> OpenXrcd(Device& device, int fd, OpenXrcdMode mode);
  static std::unique_ptr<TargetQp> CreateQp(Xrcd& xrcd);
  static std::unique_ptr<TargetQp> OpenQp(Xrcd& xrcd, uint32_t number);

  Verbs& verbs() { return *backend_.verbs; }
  const Backend& backend() const { return backend_; }

  // Values for every attribute that `port` of the device accepts.
  QpAttributes Attributes();

 private:
  Backend backend_;

 protected:
  std::unique_ptr<Device> device_;
  TempFile file_;
};

// The masks that take an XRC target from RESET to INIT to RTR to RTS.
inline constexpr uint32_t kToInit =
    kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
inline constexpr uint32_t kToRtr = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn |
                                   kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
inline constexpr uint32_t kToRts = kQpAttrState | kQpAttrTimeout | kQpAttrSqPsn;

// Moves `qp` from RESET to `state`, which must not be SQE: a target QP has no way there.
absl::Status BringTo(TargetQp& qp, QpState state, QpAttributes attributes);

}  // namespace qpbroker::verbs

#endif  // QPBROKER_TESTS_CONTRACT_CONTRACT_H_
