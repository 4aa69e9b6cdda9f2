// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RUNTIME_SERVER_H_
#define QPBROKER_DAEMON_RUNTIME_SERVER_H_

#include "absl/status/status.h"
#include "daemon/runtime/config.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::runtime {

// Where device changes are told: a descriptor that becomes readable, and how to empty it. A backend
// without hot plug has none.
class DeviceChanges {
 public:
  virtual ~DeviceChanges() = default;
  virtual int fd() const = 0;
  virtual void Drain() = 0;
};

// Serves until SIGTERM or SIGINT and returns, with every object given back. An error: it could not
// start; the message is for a person. If a call into the device does not come back, the process
// exits (status 0) after a few seconds: the kernel cleans up behind it. Before any other thread is
// started: it blocks the signals.
absl::Status Serve(const Config& config, verbs::Verbs& verbs, DeviceChanges* changes);

}  // namespace qpbroker::runtime

#endif  // QPBROKER_DAEMON_RUNTIME_SERVER_H_
