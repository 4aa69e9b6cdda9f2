// SPDX-License-Identifier: Apache-2.0
#include "daemon/telemetry/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace qpbroker::telemetry {
namespace {

constexpr size_t kQueuedLines = 8192;
constexpr absl::Duration kFlushTime = absl::Seconds(1);

struct Entry {
  const char* name;
  spdlog::level::level_enum level;
};

Entry EntryOf(Event event) {
  switch (event) {
    case Event::kStarted:
      return {"daemon.started", spdlog::level::info};
    case Event::kStopping:
      return {"daemon.stopping", spdlog::level::info};
    case Event::kStopped:
      return {"daemon.stopped", spdlog::level::info};
    case Event::kStopTimedOut:
      return {"daemon.stop_timed_out", spdlog::level::warn};
    case Event::kDeviceAdded:
      return {"device.added", spdlog::level::info};
    case Event::kDeviceRemoved:
      return {"device.removed", spdlog::level::warn};
    case Event::kDeviceFailed:
      return {"device.failed", spdlog::level::warn};
    case Event::kReleaseFailed:
      return {"device.release_failed", spdlog::level::err};
    case Event::kPeerRefused:
      return {"peer.refused", spdlog::level::warn};
    case Event::kProtocolViolation:
      return {"peer.protocol_violation", spdlog::level::warn};
    case Event::kOutOfDescriptors:
      return {"daemon.out_of_descriptors", spdlog::level::err};
  }
  return {"unknown", spdlog::level::err};
}

// Counts what is not written, for each event and user.
class Limiter {
 public:
  // Whether to write now; if so, how many were left out since the last time.
  bool Admit(Event event, uid_t uid, uint64_t& left_out) {
    constexpr absl::Duration kInterval = absl::Minutes(1);
    constexpr size_t kMaxUsers = 1024;  // Many users cost no memory: then all are counted together.
    absl::MutexLock lock(&mutex_);
    if (states_.size() >= kMaxUsers) uid = 0;
    State& state = states_[{static_cast<uint16_t>(event), uid}];
    const absl::Time now = absl::Now();
    if (now - state.last < kInterval) {
      ++state.left_out;
      return false;
    }
    state.last = now;
    left_out = std::exchange(state.left_out, 0);
    return true;
  }

 private:
  struct State {
    absl::Time last = absl::InfinitePast();
    uint64_t left_out = 0;
  };
  absl::Mutex mutex_;
  absl::flat_hash_map<std::pair<uint16_t, uid_t>, State> states_ ABSL_GUARDED_BY(mutex_);
};

Limiter& GlobalLimiter() {
  static Limiter& limiter = *new Limiter;
  return limiter;
}

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void StartLog(Level least) {
  spdlog::init_thread_pool(kQueuedLines, 1);
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::async_logger>("qpbrokerd", sink, spdlog::thread_pool(),
                                                       spdlog::async_overflow_policy::overrun_oldest);
  logger->set_level(ToSpdlog(least));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %l %v");
  spdlog::set_default_logger(std::move(logger));
}

void StopLog() {
  // spdlog waits for its writer, and that for a pipe that perhaps nobody reads: the waiting is given
  // to a thread that may be left behind.
  auto done = std::make_shared<absl::Notification>();
  std::thread([done] {
    spdlog::shutdown();
    done->Notify();
  }).detach();
  done->WaitForNotificationWithTimeout(kFlushTime);
}

void Log(Event event, absl::string_view text) {
  const Entry entry = EntryOf(event);
  spdlog::log(entry.level, "QPB{} {}: {}", static_cast<int>(event), entry.name,
              absl::CEscape(text));
}

void LogLimited(Event event, uid_t uid, absl::string_view text) {
  uint64_t left_out = 0;
  if (!GlobalLimiter().Admit(event, uid, left_out)) return;
  std::string line = absl::StrCat("uid ", uid, ": ", text);
  if (left_out > 0) absl::StrAppend(&line, " (and ", left_out, " more since the last line)");
  Log(event, line);
}

}  // namespace qpbroker::telemetry
