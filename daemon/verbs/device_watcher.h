// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_DEVICE_WATCHER_H_
#define QPBROKER_DAEMON_VERBS_DEVICE_WATCHER_H_

#include <memory>

#include "absl/status/statusor.h"

struct udev;
struct udev_monitor;

namespace qpbroker::verbs {

// Tells that RDMA devices came or went. It does not say which: list them again.
//
//   auto watcher = DeviceWatcher::Create();   // First,
//   auto names = verbs.ListDevices();         // then the list: what comes between is not lost.
//   ... when watcher->fd() is readable:
//   if ((*watcher)->Drain()) names = verbs.ListDevices();
//
// It listens to the kernel itself, so it works without udevd. The kernel tells of a device before
// udevd has set the owner and mode of its node: an open that fails then should be tried again at
// the next event. One thread.
class DeviceWatcher {
 public:
  // DAEMON_LIMIT or DEVICE_ERROR when there is no netlink to be had.
  static absl::StatusOr<std::unique_ptr<DeviceWatcher>> Create();
  ~DeviceWatcher();
  DeviceWatcher(const DeviceWatcher&) = delete;
  DeviceWatcher& operator=(const DeviceWatcher&) = delete;

  // Readable when something changed.
  int fd() const;

  // Reads all that is waiting; whether any of it was about RDMA, or some was lost. Never blocks.
  bool Drain();

 private:
  DeviceWatcher(udev* udev, udev_monitor* monitor) : udev_(udev), monitor_(monitor) {}

  udev* const udev_;
  udev_monitor* const monitor_;
};

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_DEVICE_WATCHER_H_
