// SPDX-License-Identifier: Apache-2.0
#include "common/peer_credentials.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "common/error_reason.h"

namespace qpbroker {

absl::StatusOr<PeerCredentials> ReadPeerCredentials(int socket) {
  ucred cred{};
  socklen_t size = sizeof(cred);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0) {
    return ErrnoError(v1::REASON_PERMISSION_DENIED, errno, "getsockopt(SO_PEERCRED)");
  }
  PeerCredentials peer{cred.uid, cred.gid, {}, cred.pid};
  // The first call reports the size that it needs.
  size = 0;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, nullptr, &size) != 0 && errno != ERANGE) {
    return ErrnoError(v1::REASON_PERMISSION_DENIED, errno, "getsockopt(SO_PEERGROUPS)");
  }
  peer.groups.resize(size / sizeof(gid_t));
  if (!peer.groups.empty() &&
      getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, peer.groups.data(), &size) != 0) {
    return ErrnoError(v1::REASON_PERMISSION_DENIED, errno, "getsockopt(SO_PEERGROUPS)");
  }
  std::sort(peer.groups.begin(), peer.groups.end());
  return peer;
}

}  // namespace qpbroker
