// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_SOCKET_IO_H_
#define QPBROKER_CLIENT_SRC_SOCKET_IO_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/src/deadline.h"
#include "common/unique_fd.h"

namespace qpbroker::client {

// Connects to the Unix socket at `path`; `type` is SOCK_STREAM or SOCK_SEQPACKET. The result is
// non-blocking and close-on-exec. Waits while the daemon's backlog is full.
// Errors: DAEMON_UNREACHABLE, DEADLINE_EXCEEDED, INVALID_FIELD (a path that is no socket address),
// FD_NOT_DELIVERED (this process is out of descriptors); metadata "path".
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path, int type, Deadline deadline);

// Waits until `fd` is readable or hung up. False: the deadline came first.
bool WaitReadable(int fd, Deadline deadline);

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_SOCKET_IO_H_
