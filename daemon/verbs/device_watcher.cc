// SPDX-License-Identifier: Apache-2.0
#include "daemon/verbs/device_watcher.h"

#include <libudev.h>

#include <cerrno>

#include "absl/strings/string_view.h"
#include "common/error_reason.h"

namespace qpbroker::verbs {
namespace {

// A device is usable when its uverbs node is there, and named when its infiniband entry is.
constexpr const char* kSubsystems[] = {"infiniband", "infiniband_verbs"};

// libudev returns -errno from some calls and sets errno in others.
absl::Status WatchError(int errno_value, absl::string_view call) {
  const bool limit = errno_value == EMFILE || errno_value == ENFILE || errno_value == ENOMEM;
  return ErrnoError(limit ? v1::REASON_DAEMON_LIMIT : v1::REASON_DEVICE_ERROR, errno_value, call);
}

absl::Status Subscribe(udev_monitor* monitor) {
  for (const char* subsystem : kSubsystems) {
    int result = udev_monitor_filter_add_match_subsystem_devtype(monitor, subsystem, nullptr);
    if (result < 0) return WatchError(-result, "udev_monitor_filter_add_match_subsystem_devtype");
  }
  int result = udev_monitor_enable_receiving(monitor);
  return result < 0 ? WatchError(-result, "udev_monitor_enable_receiving") : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceWatcher>> DeviceWatcher::Create() {
  errno = ENOMEM;
  udev* udev = udev_new();
  if (udev == nullptr) return WatchError(errno, "udev_new");
  errno = ENOMEM;
  udev_monitor* monitor = udev_monitor_new_from_netlink(udev, "kernel");
  if (monitor == nullptr) {
    absl::Status status = WatchError(errno, "udev_monitor_new_from_netlink");
    udev_unref(udev);
    return status;
  }
  std::unique_ptr<DeviceWatcher> watcher(new DeviceWatcher(udev, monitor));
  if (absl::Status status = Subscribe(monitor); !status.ok()) return status;
  return watcher;
}

DeviceWatcher::~DeviceWatcher() {
  udev_monitor_unref(monitor_);
  udev_unref(udev_);
}

int DeviceWatcher::fd() const { return udev_monitor_get_fd(monitor_); }

bool DeviceWatcher::Drain() {
  bool changed = false;
  while (true) {
    errno = 0;
    udev_device* device = udev_monitor_receive_device(monitor_);
    if (device != nullptr) {
      udev_device_unref(device);
    } else if (errno != ENOBUFS) {
      return changed;
    }
    // ENOBUFS: the socket overflowed, and what was lost may have been ours.
    changed = true;
  }
}

}  // namespace qpbroker::verbs
