// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_COMMON_PEER_CREDENTIALS_H_
#define QPBROKER_COMMON_PEER_CREDENTIALS_H_

#include <sys/types.h>

#include <vector>

#include "absl/status/statusor.h"

namespace qpbroker {

// Who connected a Unix socket, as the kernel recorded it at connect(2). A socket that is passed on
// to another process keeps them.
struct PeerCredentials {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // Supplementary groups, sorted.
  pid_t pid = 0;              // 0: the peer has no pid in our namespace. A hint: it may be reused.
};

// Reads SO_PEERCRED and SO_PEERGROUPS. An error means that the peer cannot be identified and must
// be refused.
absl::StatusOr<PeerCredentials> ReadPeerCredentials(int socket);

}  // namespace qpbroker

#endif  // QPBROKER_COMMON_PEER_CREDENTIALS_H_
