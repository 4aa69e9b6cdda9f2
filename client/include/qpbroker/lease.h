// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_LEASE_H_
#define QPBROKER_LEASE_H_

// A lease: one reference to a domain or a QP, held as a file descriptor.
//
//   lease.OnEvent([](const qpbroker::Event& event) { ... });
//   // when poll(2) says that lease.fd() is readable or hung up:
//   qpbroker::Result<int> handled = lease.ProcessEvents();
//
// The reference counts while any copy of the descriptor is open in any process, and is released
// when the last one is closed: by Close, by the destructor, by exit, by SIGKILL. No other clean-up
// is needed. A child made by fork(2) inherits copies, so the reference then lasts until parent and
// child have both closed theirs (or exited, or exec'ed: the descriptors are close-on-exec). Close
// in the parent gives the reference itself back, whoever still has copies; these then hang up. In
// the child Close only closes the child's copy.
//
// Threads: a Lease is used by one thread at a time; different leases are independent. Copies of one
// descriptor (fork, dup) share one stream of events: whoever reads an event first takes it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "qpbroker/error.h"

namespace qpbroker {

namespace client {
class LeaseState;
}  // namespace client

// Options that every call takes.
struct CallOptions {
  // How long the call may take in all; afterwards it fails with DEADLINE_EXCEEDED. Zero or less
  // fails at once; anything above a year means a year.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

// Something that happened to a lease's object.
struct Event {
  enum class Kind : uint8_t {
    kOverflow,     // Events were lost, `detail` of them: ask by QueryQp.
    kQpError,      // The QP `qp_num` went into the error state; `detail` is an ibv_event_type.
    kPortActive,   // `port`.
    kPortDown,     // `port`.
    kDeviceGone,   // The device was removed or suffered a fatal error; kGone follows.
    kRevoked,      // The lease was revoked; kGone follows.
    kQpDestroyed,  // The QP `qp_num` was taken out of its domain: no new opens.
    kQpEvent,      // Another event of the QP `qp_num`; `detail` is an ibv_event_type.
    kGone,         // The lease has ended, or the daemon is gone for good. Always the last event.
  };

  Kind kind = Kind::kOverflow;
  uint32_t qp_num = 0;    // 0: not about one QP.
  uint32_t port = 0;      // 0: not about one port.
  uint32_t detail = 0;    // By kind.
  uint64_t sequence = 0;  // Counts the lease's events from 1, lost ones included; 0 for kGone.
};

// "kQpError" is "QP_ERROR", and so on.
std::string_view EventKindName(Event::Kind kind);

class Lease {
 public:
  // For the library only: leases come from a Client.
  explicit Lease(std::shared_ptr<client::LeaseState> state);

  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  // Closes the descriptor, which is all that the broker needs.
  ~Lease();

  // To be watched (level-triggered) for readability and hang-up; -1 once closed. Owned by the
  // lease, non-blocking, close-on-exec.
  int fd() const;
  // Resource name, e.g. "leases/17@5f0c2a9b11d4".
  const std::string& name() const;

  // Sets who hears of events; an empty function: nobody. The handler runs inside ProcessEvents and
  // may close or destroy the lease.
  void OnEvent(std::function<void(const Event&)> handler);

  // Reads what is there, gives it to the handler, and returns how many events that were. Never
  // blocks. Without a handler it reads nothing and returns 0. kGone is given once; take fd() out of
  // the poll set then, since it stays readable.
  // Errors: LEASE_NOT_FOUND after Close, PROTOCOL_VIOLATION if what was read is no event (the
  // reference still counts, and what was read before it was handled).
  Result<int> ProcessEvents();

  // Waits for one event without the handler; nullopt when none came in time. A negative timeout
  // waits for ever. After kGone every call returns kGone at once. Errors: as ProcessEvents.
  Result<std::optional<Event>> WaitEvent(std::chrono::milliseconds timeout);

  // Gives the reference back and says how many leases are left on its object. Whatever the answer
  // is, this process's descriptor is closed.
  // Errors: LEASE_NOT_FOUND (closed or revoked before), DAEMON_UNREACHABLE (also when the Client is
  // gone), DEADLINE_EXCEEDED, NOT_ATTACHED in a forked child.
  Result<uint32_t> Close(const CallOptions& call = {});

 private:
  std::shared_ptr<client::LeaseState> state_;
};

}  // namespace qpbroker

#endif  // QPBROKER_LEASE_H_
