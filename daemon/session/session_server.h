// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_SESSION_SESSION_SERVER_H_
#define QPBROKER_DAEMON_SESSION_SESSION_SERVER_H_

// The clients' sessions: SEQPACKET connections that carry a greeting and then descriptors, all from
// the daemon to the client.
//
// Adopt, Shutdown and the end of sessions happen in the loop's thread; Deliver in any.

#include <functional>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "common/peer_credentials.h"
#include "common/unique_fd.h"
#include "daemon/core/broker.h"
#include "daemon/core/ports.h"

namespace qpbroker::session {

// The way to the clients, apart from SessionServer because the broker needs it before there is one.
class FdDelivery : public core::DeliveryPort {
 public:
  absl::Status Deliver(core::SessionId session, const v1::FdDelivery& delivery,
                       absl::Span<const int> fds) override ABSL_LOCKS_EXCLUDED(mutex_);

  void Add(core::SessionId session, std::shared_ptr<const UniqueFd> socket)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(core::SessionId session) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<core::SessionId, std::shared_ptr<const UniqueFd>> sockets_
      ABSL_GUARDED_BY(mutex_);
};

class SessionServer {
 public:
  SessionServer(EventLoop& loop, core::Broker& broker, FdDelivery& delivery,
                absl::Duration attach_timeout);
  SessionServer(const SessionServer&) = delete;
  SessionServer& operator=(const SessionServer&) = delete;
  ~SessionServer();

  // A client connected: greets it, or closes when it is over its quota.
  void Adopt(UniqueFd socket);
  // Ends a session from our side, e.g. because its gRPC connection ended. One that is gone is no
  // error.
  void End(core::SessionId session);
  size_t size() const { return sessions_.size(); }

 private:
  struct Session {
    uid_t uid = 0;
    std::shared_ptr<const UniqueFd> socket;
  };

  absl::Status Greet(const UniqueFd& socket, core::SessionId session, absl::string_view nonce);
  void OnReadable(core::SessionId session);
  void EndIfNotAttached(core::SessionId session);

  EventLoop& loop_;
  core::Broker& broker_;
  FdDelivery& delivery_;
  const absl::Duration attach_timeout_;
  absl::flat_hash_map<core::SessionId, Session> sessions_;
  // Timers outlive sessions, and may outlive the server.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace qpbroker::session

#endif  // QPBROKER_DAEMON_SESSION_SESSION_SERVER_H_
