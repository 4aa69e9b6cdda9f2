// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_TELEMETRY_LOG_H_
#define QPBROKER_DAEMON_TELEMETRY_LOG_H_

// The daemon's log on standard error: one line for each event, with its id and name from events.h.
// Quiet when all is well. Never blocks the caller: lines go through a bounded queue that drops its
// oldest when nobody reads.
//
//   telemetry::Log(telemetry::Event::kStarted, "serving in /run/qpbroker");
//
// Any thread. Texts are escaped: they may hold a client's words.

#include <sys/types.h>

#include "absl/strings/string_view.h"
#include "daemon/telemetry/events.h"

namespace qpbroker::telemetry {

// Starts logging. Once, before the first line; again after StopLog.
void StartLog(Level least);

// Writes what is queued. False: the reader of standard error is stuck and some of it was given up
// after a second. Then the process must end by _exit, since destructors would wait for the writer.
bool StopLog();

void Log(Event event, absl::string_view text);

// The same at most once a minute for each event and `about`, which begins the line ("fake0"). The
// next line then says how many were not written.
void LogLimited(Event event, absl::string_view about, absl::string_view text);
// About a user: "uid 1000".
void LogLimited(Event event, uid_t uid, absl::string_view text);

}  // namespace qpbroker::telemetry

#endif  // QPBROKER_DAEMON_TELEMETRY_LOG_H_
