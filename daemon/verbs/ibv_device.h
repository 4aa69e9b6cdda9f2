// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_IBV_DEVICE_H_
#define QPBROKER_DAEMON_VERBS_IBV_DEVICE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/verbs/ibv_context.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::verbs {

class IbvDevice : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Make(std::unique_ptr<IbvContext> context);

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<std::vector<PortInfo>> QueryPorts() override;
  absl::StatusOr<std::unique_ptr<Xrcd>> OpenXrcd(int fd, OpenXrcdMode mode) override;
  int context_fd() const override { return context_->get()->cmd_fd; }
  int event_fd() const override { return context_->get()->async_fd; }
  absl::StatusOr<std::optional<AsyncEvent>> NextEvent() override;

 private:
  explicit IbvDevice(std::unique_ptr<IbvContext> context) : context_(std::move(context)) {}

  absl::Status Init();
  absl::Status LearnXrc(const ibv_device_attr& attributes);
  absl::StatusOr<PortInfo> QueryPort(uint8_t number);

  const std::unique_ptr<IbvContext> context_;
  DeviceInfo info_;
  uint8_t port_count_ = 0;
};

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_IBV_DEVICE_H_
