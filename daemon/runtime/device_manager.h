// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RUNTIME_DEVICE_MANAGER_H_
#define QPBROKER_DAEMON_RUNTIME_DEVICE_MANAGER_H_

// Keeps the broker's devices those of the machine: finds, opens and forgets them, and reads their
// events. The loop's thread.

#include <memory>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "daemon/core/broker.h"
#include "daemon/core/ports.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::runtime {

class DeviceManager {
 public:
  // Opening runs on `executor`, since it may take seconds.
  DeviceManager(EventLoop& loop, verbs::Verbs& verbs, core::Broker& broker,
                core::Executor& executor, absl::Duration retry_interval = absl::Seconds(5));
  DeviceManager(const DeviceManager&) = delete;
  DeviceManager& operator=(const DeviceManager&) = delete;
  // Forgets all devices; the executor must have run dry or be about to.
  ~DeviceManager();

  // Compares the list of devices with what is known. To be called at the start, after the watcher
  // of changes was subscribed (else what comes in between is lost), and for each change.
  void Scan();

  // Opens one in the caller's thread, to take over what an earlier daemon had there. A failure is
  // logged; it is tried again as with any device.
  void OpenNow(const std::string& name);

 private:
  void Open(const std::string& name);
  void OnOpened(const std::string& name, absl::StatusOr<std::unique_ptr<verbs::Device>> opened);
  void OnEvents(const std::string& name);
  void Remove(const std::string& name);
  void Failed(absl::string_view name, const absl::Status& why);
  void ScanLater();

  EventLoop& loop_;
  verbs::Verbs& verbs_;
  core::Broker& broker_;
  core::Executor& executor_;
  const absl::Duration retry_interval_;
  absl::btree_map<std::string, std::shared_ptr<verbs::Device>> devices_;
  absl::btree_set<std::string> opening_;
  bool scan_pending_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace qpbroker::runtime

#endif  // QPBROKER_DAEMON_RUNTIME_DEVICE_MANAGER_H_
