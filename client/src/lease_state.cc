// SPDX-License-Identifier: Apache-2.0
#include "client/src/lease_state.h"

#include <utility>
#include <vector>

#include "client/src/socket_io.h"
#include "common/error_reason.h"
#include "qpbroker/v1/broker.pb.h"

namespace qpbroker::client {

LeaseState::LeaseState(std::weak_ptr<Connection> connection, LeaseTarget target, std::string name,
                       UniqueFd fd)
    : connection_(std::move(connection)),
      target_(target),
      name_(std::move(name)),
      fd_(std::move(fd)) {}

absl::StatusOr<int> LeaseState::ProcessEvents() {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  if (!handler_) return 0;
  absl::Status status = Fill();
  int handled = 0;
  // The handler may close the lease or take the handler away.
  while (fd_ && handler_) {
    std::optional<Event> event = Next();
    if (!event) break;
    ++handled;
    std::function<void(const Event&)> handler = handler_;  // It may replace itself.
    handler(*event);
  }
  if (!status.ok()) return status;
  return handled;
}

absl::StatusOr<std::optional<Event>> LeaseState::WaitEvent(std::chrono::milliseconds timeout) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  const Deadline deadline =
      DeadlineAfter(timeout.count() < 0 ? std::chrono::milliseconds::max() : timeout);
  for (;;) {
    if (std::optional<Event> event = Next()) return event;
    if (reader_.gone()) return Event{.kind = Event::Kind::kGone};
    if (absl::Status status = Fill(); !status.ok()) return status;
    if (!queue_.empty()) continue;
    if (!WaitReadable(fd_.get(), deadline)) return std::nullopt;
  }
}

absl::StatusOr<uint32_t> LeaseState::Close(Deadline deadline) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  // Closed after the call, so that the answer counts this lease as given back by the call.
  UniqueFd closing = std::move(fd_);
  std::shared_ptr<Connection> connection = connection_.lock();
  if (connection == nullptr) {
    return MakeError(v1::REASON_DAEMON_UNREACHABLE,
                     "the lease was given back, but its Client is gone: no answer");
  }
  if (target_ == LeaseTarget::kXrcd) {
    v1::CloseXrcdRequest request;
    request.set_lease(name_);
    v1::CloseXrcdResponse response;
    absl::Status status = connection->Call("CloseXrcd", request, &response, deadline);
    if (!status.ok()) return status;
    return response.remaining_leases();
  }
  v1::CloseQpRequest request;
  request.set_lease(name_);
  v1::CloseQpResponse response;
  absl::Status status = connection->Call("CloseQp", request, &response, deadline);
  if (!status.ok()) return status;
  return response.remaining_leases();
}

absl::Status LeaseState::CheckOpen() const {
  if (fd_) return absl::OkStatus();
  return MakeError(v1::REASON_LEASE_NOT_FOUND, "this lease was closed before", {{"lease", name_}});
}

absl::Status LeaseState::Fill() {
  std::vector<Event> events;
  absl::Status status = reader_.Read(fd_.get(), events);
  queue_.insert(queue_.end(), events.begin(), events.end());
  return status;
}

std::optional<Event> LeaseState::Next() {
  if (queue_.empty()) return std::nullopt;
  Event event = queue_.front();
  queue_.pop_front();
  return event;
}

}  // namespace qpbroker::client
