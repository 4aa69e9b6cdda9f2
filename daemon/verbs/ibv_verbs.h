// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_IBV_VERBS_H_
#define QPBROKER_DAEMON_VERBS_IBV_VERBS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::verbs {

// How a handle from ibv_open_qp is let go.
enum class OpenedHandles : uint8_t {
  kByProvider,      // As is right for the device's provider.
  kPrivateContext,  // Always by a context of its own; for tests.
};

// The devices of this machine through libibverbs and whatever providers it finds at run time.
//
//   IbvVerbs verbs;
//   absl::StatusOr<std::unique_ptr<Device>> device = verbs.OpenDevice("mlx5_0");
//
// Stateless; any thread. The process needs AF_NETLINK sockets and read-write access to
// /dev/infiniband/uverbsN, and should open devices after its last change of credentials: the kernel
// compares the opener's with those of each later write(2).
class IbvVerbs : public Verbs {
 public:
  explicit IbvVerbs(OpenedHandles opened_handles = OpenedHandles::kByProvider)
      : opened_handles_(opened_handles) {}

  // Also names devices that the kernel has and libibverbs has no provider for: they open with
  // XRC_NOT_SUPPORTED, which says more than their absence would.
  absl::StatusOr<std::vector<std::string>> ListDevices() override;

  // DEVICE_ERROR when the device node cannot be accessed.
  absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name) override;

 private:
  const OpenedHandles opened_handles_;
};

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_IBV_VERBS_H_
