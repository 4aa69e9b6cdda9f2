// SPDX-License-Identifier: Apache-2.0
#include "qpbroker/lease.h"

#include <utility>

#include "client/src/error_convert.h"
#include "client/src/lease_state.h"

namespace qpbroker {

std::string_view EventKindName(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kOverflow:
      return "OVERFLOW";
    case Event::Kind::kQpError:
      return "QP_ERROR";
    case Event::Kind::kPortActive:
      return "PORT_ACTIVE";
    case Event::Kind::kPortDown:
      return "PORT_DOWN";
    case Event::Kind::kDeviceGone:
      return "DEVICE_GONE";
    case Event::Kind::kRevoked:
      return "REVOKED";
    case Event::Kind::kQpDestroyed:
      return "QP_DESTROYED";
    case Event::Kind::kQpEvent:
      return "QP_EVENT";
    case Event::Kind::kGone:
      return "GONE";
  }
  return "UNKNOWN";
}

Lease::Lease(std::shared_ptr<client::LeaseState> state) : state_(std::move(state)) {}
Lease::Lease(Lease&&) noexcept = default;

Lease& Lease::operator=(Lease&& other) noexcept {
  Lease replaced(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

// Not by the state's destructor, which a running handler holds off.
Lease::~Lease() {
  if (state_ != nullptr) state_->Abandon();
}

int Lease::fd() const { return state_->fd(); }

const std::string& Lease::name() const { return state_->name(); }

void Lease::OnEvent(std::function<void(const Event&)> handler) {
  state_->set_handler(std::move(handler));
}

Result<int> Lease::ProcessEvents() {
  // Held here: the handler may destroy this Lease.
  std::shared_ptr<client::LeaseState> state = state_;
  absl::StatusOr<int> handled = state->ProcessEvents();
  if (!handled.ok()) return client::ToError(handled.status());
  return *handled;
}

Result<std::optional<Event>> Lease::WaitEvent(std::chrono::milliseconds timeout) {
  absl::StatusOr<std::optional<Event>> event = state_->WaitEvent(timeout);
  if (!event.ok()) return client::ToError(event.status());
  return *std::move(event);
}

Result<uint32_t> Lease::Close(const CallOptions& call) {
  absl::StatusOr<uint32_t> remaining = state_->Close(client::DeadlineAfter(call.timeout));
  if (!remaining.ok()) return client::ToError(remaining.status());
  return *remaining;
}

}  // namespace qpbroker
