// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RUNTIME_INHERITANCE_H_
#define QPBROKER_DAEMON_RUNTIME_INHERITANCE_H_

// What one daemon takes over from the one before it, and whether it can.

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/ids.h"
#include "daemon/core/ports.h"

namespace qpbroker::runtime {

struct Inheritance {
  core::Generation generation;
  uint32_t life = 0;                   // How many daemons there were before.
  std::vector<core::KeptObject> kept;  // Without the store's own entry.
  std::shared_ptr<core::KeptEntry> store;

  // The devices on which there is something to take over.
  std::set<std::string> Devices() const;
};

// Reads what the keeper had and marks it as this daemon's. An error: it was written by a version
// whose records this one must not touch; nothing was changed. `fresh`: the generation if there is
// nothing to go on with.
absl::StatusOr<Inheritance> Inherit(std::vector<core::KeptObject> kept, core::KeeperPort& keeper,
                                    core::Generation fresh);

}  // namespace qpbroker::runtime

#endif  // QPBROKER_DAEMON_RUNTIME_INHERITANCE_H_
