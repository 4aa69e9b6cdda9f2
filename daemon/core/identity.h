// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_IDENTITY_H_
#define QPBROKER_DAEMON_CORE_IDENTITY_H_

#include <optional>

#include "common/peer_credentials.h"
#include "daemon/core/ids.h"

namespace qpbroker::core {

// How much a caller may see: the socket that it could open decides.
enum class Scope : uint8_t {
  kOwn,  // api.sock: what is theirs. uid 0 is an ordinary user here.
  kAll,  // inspect.sock, admin.sock.
};

// Who makes a call.
struct Caller {
  PeerCredentials identity;
  Scope scope = Scope::kOwn;
  // The attached session, where descriptors go.
  std::optional<SessionId> session;
};

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_IDENTITY_H_
