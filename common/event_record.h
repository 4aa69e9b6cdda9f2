// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_COMMON_EVENT_RECORD_H_
#define QPBROKER_COMMON_EVENT_RECORD_H_

#include <cstdint>

namespace qpbroker {

// What happened to a lease's object. Numbers are part of the protocol and never reused.
enum class EventKind : uint32_t {
  kOverflow = 1,     // Events were lost; ask by QueryQp. `detail`: how many.
  kQpError = 2,      // The QP went into the error state. `qp_num`; `detail`: ibv_event_type.
  kPortActive = 3,   // `port`.
  kPortDown = 4,     // `port`.
  kDeviceGone = 5,   // The device was removed or suffered a fatal error; a hang-up follows.
  kRevoked = 6,      // The lease was revoked; a hang-up follows.
  kQpDestroyed = 7,  // The QP was taken out of its domain: no new opens. `qp_num`.
  kQpEvent = 8,      // Another event of the QP. `qp_num`; `detail`: ibv_event_type.
};

// One event as it is read from a lease's descriptor: 32 bytes, the machine's byte order, written in
// one write(2) and far below PIPE_BUF, so that records are never torn. `size` lets a reader skip
// records of a later version that are longer; unknown kinds are to be skipped.
struct EventRecord {
  uint32_t size = sizeof(EventRecord);  // Bytes of this record.
  EventKind kind = EventKind::kOverflow;
  uint32_t qp_num = 0;    // 0: not about one QP.
  uint32_t port = 0;      // 0: not about one port.
  uint32_t detail = 0;    // By kind.
  uint32_t reserved = 0;  // 0.
  // Counts the lease's events from 1, lost ones included. When a daemon takes over from one that
  // died, the count goes on at a multiple of 2^40: events from in between may be lost.
  uint64_t sequence = 0;
};
static_assert(sizeof(EventRecord) == 32);

// The bits of EventRecord::sequence from here on count the daemon's lives.
inline constexpr int kEventSequenceLifeShift = 40;

}  // namespace qpbroker

#endif  // QPBROKER_COMMON_EVENT_RECORD_H_
