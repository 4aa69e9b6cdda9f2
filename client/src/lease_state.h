// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_LEASE_STATE_H_
#define QPBROKER_CLIENT_SRC_LEASE_STATE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/src/connection.h"
#include "client/src/event_reader.h"
#include "common/unique_fd.h"
#include "qpbroker/lease.h"

namespace qpbroker::client {

// What a lease refers to, which says how it is given back.
enum class LeaseTarget : uint8_t { kXrcd, kQp };

// What is behind a Lease. Apart from it because a handler may destroy the Lease that is calling it.
class LeaseState {
 public:
  LeaseState(std::weak_ptr<Connection> connection, LeaseTarget target, std::string name,
             UniqueFd fd);

  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }
  void set_handler(std::function<void(const Event&)> handler) { handler_ = std::move(handler); }

  absl::StatusOr<int> ProcessEvents();
  absl::StatusOr<std::optional<Event>> WaitEvent(std::chrono::milliseconds timeout);
  // Closes the descriptor, and thereby ends a ProcessEvents that is running.
  void Abandon() { fd_.reset(); }
  // Gives the lease back. Closes the descriptor in any case.
  absl::StatusOr<uint32_t> Close(Deadline deadline);

 private:
  absl::Status CheckOpen() const;
  // Moves what can be read to `queue_`.
  absl::Status Fill();
  std::optional<Event> Next();

  // Weak: a lease outlives the connection, and keeps no connection alive.
  const std::weak_ptr<Connection> connection_;
  const LeaseTarget target_;
  const std::string name_;
  UniqueFd fd_;
  EventReader reader_;
  std::deque<Event> queue_;
  std::function<void(const Event&)> handler_;
};

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_LEASE_STATE_H_
