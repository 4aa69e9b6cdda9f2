// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_FORK_GUARD_H_
#define QPBROKER_CLIENT_SRC_FORK_GUARD_H_

#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/error_reason.h"

namespace qpbroker::client {

// Tells a forked child from the process that made the object. A child must touch neither locks nor
// threads that it inherited: their holders do not exist in it.
class ForkGuard {
 public:
  bool InChild() const { return getpid() != owner_; }

  // OK, or in a child the error that says so. `what` is the thing that was inherited.
  absl::Status Check(absl::string_view what) const {
    if (!InChild()) return absl::OkStatus();
    return MakeError(v1::REASON_NOT_ATTACHED, what,
                     {{"hint", "exec first, or let only the child connect"}});
  }

 private:
  pid_t owner_ = getpid();
};

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_FORK_GUARD_H_
