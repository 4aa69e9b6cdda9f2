// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/session_table.h"

#include <utility>

namespace qpbroker::core {

SessionRecord* SessionTable::Add(const PeerCredentials& identity, absl::string_view nonce,
                                 absl::Time now, Charge charge) {
  const SessionId id(last_id_ + 1);
  if (!waiting_.emplace(std::string(nonce), id).second) return nullptr;
  ++last_id_;
  SessionRecord record{id, identity, std::string(nonce), now, std::move(charge)};
  return &sessions_.emplace(id, std::move(record)).first->second;
}

void SessionTable::Remove(SessionId id) {
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  if (!found->second.nonce.empty()) waiting_.erase(found->second.nonce);
  sessions_.erase(found);
}

// The look-up by hash tells nothing by its duration: the table's hash is seeded at random and a
// guess that shares a prefix with a nonce is no nearer to it.
std::optional<SessionId> SessionTable::UseNonce(absl::string_view nonce, uid_t uid) {
  auto waiting = waiting_.find(std::string(nonce));
  if (waiting == waiting_.end()) return std::nullopt;
  SessionRecord& record = sessions_.at(waiting->second);
  if (record.identity.uid != uid) return std::nullopt;
  waiting_.erase(waiting);
  record.nonce.clear();
  return record.id;
}

}  // namespace qpbroker::core
