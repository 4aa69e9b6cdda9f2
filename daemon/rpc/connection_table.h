// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RPC_CONNECTION_TABLE_H_
#define QPBROKER_DAEMON_RPC_CONNECTION_TABLE_H_

// The gRPC connections: each accepted socket gets a gRPC server object of its own, whose services
// know who connected.
//
// Adopt, Shutdown and the end of connections happen in the loop's thread.

#include <functional>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "common/unique_fd.h"
#include "daemon/core/broker.h"
#include "daemon/core/identity.h"

namespace qpbroker::rpc {

class Connection;
class Reaper;

// What gRPC can do once for the whole process: health checks in every server. Before the first
// connection.
void InitServices();

class ConnectionTable {
 public:
  // `end_session` is called when a connection with a session ends.
  ConnectionTable(EventLoop& loop, core::Broker& broker,
                  std::function<void(core::SessionId)> end_session);
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;
  // Ends every connection and waits until the last call was answered.
  ~ConnectionTable();

  // A client connected. One that cannot be identified or is over its quota is closed without a
  // word: answering it would take the server object that the quota denies it. It sees UNAVAILABLE.
  void Adopt(UniqueFd socket, core::Scope scope);
  size_t size() const { return connections_.size(); }

  // Ends every connection and waits, `limit` at the most, until their servers are gone. False: a
  // call that does not come back keeps one.
  bool Shutdown(absl::Duration limit);

 private:
  struct Entry {
    UniqueFd watched;  // A dup of the connection's socket, for the loop.
    std::shared_ptr<Connection> connection;
  };
  void End(uint64_t id);

  EventLoop& loop_;
  core::Broker& broker_;
  const std::function<void(core::SessionId)> end_session_;
  const std::shared_ptr<Reaper> reaper_;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<uint64_t, Entry> connections_;
};

}  // namespace qpbroker::rpc

#endif  // QPBROKER_DAEMON_RPC_CONNECTION_TABLE_H_
