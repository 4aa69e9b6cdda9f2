// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_TELEMETRY_LOG_H_
#define QPBROKER_DAEMON_TELEMETRY_LOG_H_

// The daemon's log: one line for each event, with the event's id and name. Quiet when all is well. Never
// blocks the caller: lines go through a bounded queue that drops its oldest when nobody reads.
//
//   telemetry::Log(telemetry::Event::kStarted, "serving in /run/qpbroker");
//
// Any thread.

#include <sys/types.h>

#include <cstdint>

#include "absl/strings/string_view.h"

namespace qpbroker::telemetry {

// The catalogue; each has its id, name and level in log.cc. Numbers are never reused.
enum class Event : uint16_t {
  kStarted = 1000,
  kStopping = 1001,
  kStopped = 1002,
  kStopTimedOut = 1003,
  kDeviceAdded = 1100,
  kDeviceRemoved = 1101,
  kDeviceFailed = 1102,
  kReleaseFailed = 1103,
  kPeerRefused = 1200,
  kProtocolViolation = 1201,
  kOutOfDescriptors = 1202,
};

enum class Level : uint8_t { kDebug, kInfo, kWarning, kError };

// Starts logging to standard error. Once, before the first line.
void StartLog(Level least);

// Writes what is queued, for a moment at the most: a reader that is stuck does not keep us.
void StopLog();

// `text` is escaped: it may hold a client's words.
void Log(Event event, absl::string_view text);

// The same at most once a minute for each event and user; the next line then says how many were not
// written.
void LogLimited(Event event, uid_t uid, absl::string_view text);

}  // namespace qpbroker::telemetry

#endif  // QPBROKER_DAEMON_TELEMETRY_LOG_H_
