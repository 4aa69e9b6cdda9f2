// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_IBV_CONTEXT_H_
#define QPBROKER_DAEMON_VERBS_IBV_CONTEXT_H_

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/verbs/ibv_verbs.h"

namespace qpbroker::verbs {

// The errno of an int-returning verb: most return it, a few return -1 and set it.
inline int ErrnoOf(int result) { return result < 0 ? errno : result; }

// The user-space driver behind a context.
struct IbvProvider {
  std::string name;  // "mlx5"; empty: not known.
  // Whether ibv_destroy_qp and a modify to RESET are safe on a handle from ibv_open_qp.
  bool opened_handles_are_safe = false;
  // enum rdma_driver_id.
  std::optional<uint32_t> driver_id;
};

// Owns an ibv_context. What was made through it goes with it.
class IbvContext {
 public:
  static absl::StatusOr<std::unique_ptr<IbvContext>> Open(const std::string& device_name,
                                                          OpenedHandles opened_handles);
  ~IbvContext();
  IbvContext(const IbvContext&) = delete;
  IbvContext& operator=(const IbvContext&) = delete;

  ibv_context* get() const { return context_; }
  const std::string& device_name() const { return device_name_; }
  const IbvProvider& provider() const { return provider_; }

  // Drops this context's asynchronous events for good.
  absl::Status DiscardEvents();

 private:
  IbvContext(ibv_context* context, std::string device_name, OpenedHandles opened_handles);

  ibv_context* const context_;
  const std::string device_name_;
  IbvProvider provider_;
};

// Names of the devices that libibverbs offers now.
absl::StatusOr<std::vector<std::string>> IbvDeviceNames();

// Names of the devices that the kernel has now.
std::vector<std::string> KernelDeviceNames();

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_IBV_CONTEXT_H_
