// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_FAKE_VERBS_H_
#define QPBROKER_DAEMON_VERBS_FAKE_VERBS_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "daemon/verbs/fake_kernel.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::verbs {

class FakeProcessContext;

// What one process sees of a FakeKernel. The kernel must outlive it.
class FakeVerbs : public Verbs {
 public:
  explicit FakeVerbs(FakeKernel& kernel) : kernel_(kernel) {}

  absl::StatusOr<std::vector<std::string>> ListDevices() override;
  absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name) override;

  // SIGKILL: the kernel takes back all that this process has open, except where a copy of a
  // Device::context_fd() is kept elsewhere. The objects that it leaves behind may be destroyed;
  // their Destroy and Close do nothing, other calls fail with EBADF. What is opened afterwards
  // belongs to a new process.
  void Kill();

 private:
  FakeKernel& kernel_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<FakeProcessContext>> contexts_;
};

// The kernel of `--backend fake`: one device "fake0" with two active ports.
std::unique_ptr<FakeKernel> MakeLaptopKernel();

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_FAKE_VERBS_H_
