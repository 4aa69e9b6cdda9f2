// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_SESSION_TABLE_H_
#define QPBROKER_DAEMON_CORE_SESSION_TABLE_H_

// The sessions and the nonces that still wait for their connection. Not thread-safe.

#include <optional>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/peer_credentials.h"
#include "daemon/core/ids.h"
#include "daemon/core/ledger.h"

namespace qpbroker::core {

struct SessionRecord {
  SessionId id;
  PeerCredentials identity;
  std::string nonce;  // Empty once it was used.
  absl::Time created;
  Charge charge;
};

class SessionTable {
 public:
  // Nonces are random and 128 bits long: two alike mean a broken generator, and the second is
  // refused.
  SessionRecord* Add(const PeerCredentials& identity, absl::string_view nonce, absl::Time now,
                     Charge charge);
  void Remove(SessionId id);
  // Uses `nonce` up and returns its session if it waits for a connection of `uid`.
  std::optional<SessionId> UseNonce(absl::string_view nonce, uid_t uid);

  bool Contains(SessionId id) const { return sessions_.contains(id); }
  const absl::btree_map<SessionId, SessionRecord>& sessions() const { return sessions_; }

 private:
  uint64_t last_id_ = 0;
  absl::btree_map<SessionId, SessionRecord> sessions_;
  absl::flat_hash_map<std::string, SessionId> waiting_;
};

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_SESSION_TABLE_H_
