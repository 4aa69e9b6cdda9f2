// SPDX-License-Identifier: Apache-2.0
#include "daemon/verbs/ibv_verbs.h"

#include <algorithm>
#include <utility>

#include "daemon/verbs/ibv_context.h"
#include "daemon/verbs/ibv_device.h"

namespace qpbroker::verbs {

absl::StatusOr<std::vector<std::string>> IbvVerbs::ListDevices() {
  absl::StatusOr<std::vector<std::string>> names = IbvDeviceNames();
  if (!names.ok()) return names.status();
  for (std::string& name : KernelDeviceNames()) {
    if (std::find(names->begin(), names->end(), name) == names->end()) {
      names->push_back(std::move(name));
    }
  }
  return names;
}

absl::StatusOr<std::unique_ptr<Device>> IbvVerbs::OpenDevice(const std::string& name) {
  absl::StatusOr<std::unique_ptr<IbvContext>> context = IbvContext::Open(name, opened_handles_);
  if (!context.ok()) return context.status();
  return IbvDevice::Make(*std::move(context));
}

}  // namespace qpbroker::verbs
