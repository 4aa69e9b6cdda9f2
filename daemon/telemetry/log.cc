// SPDX-License-Identifier: Apache-2.0
#include "daemon/telemetry/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/telemetry/rate_limiter.h"

namespace qpbroker::telemetry {
namespace {

constexpr size_t kQueuedLines = 1024;
constexpr size_t kLimitedKeys = 1024;
constexpr absl::Duration kLimitedInterval = absl::Minutes(1);
constexpr absl::Duration kFlushTime = absl::Seconds(1);

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
  auto logger = std::make_shared<spdlog::async_logger>(
      "qpbrokerd", sink, spdlog::thread_pool(), spdlog::async_overflow_policy::overrun_oldest);
  logger->set_level(ToSpdlog(least));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %l %v");
  spdlog::set_default_logger(std::move(logger));
}

bool StopLog() {
  // spdlog waits for its writer, and that for a pipe that perhaps nobody reads: the waiting is
  // given to a thread that may be left behind.
  auto done = std::make_shared<absl::Notification>();
  std::thread([done] {
    spdlog::shutdown();
    done->Notify();
  }).detach();
  return done->WaitForNotificationWithTimeout(kFlushTime);
}

void Log(Event event, absl::string_view text) {
  const EventEntry& entry = EventEntryOf(event);
  spdlog::log(ToSpdlog(entry.level), "QPB{} {}: {}", static_cast<int>(event), entry.name,
              absl::CEscape(text));
}

void LogLimited(Event event, absl::string_view about, absl::string_view text) {
  static RateLimiter& limiter = *new RateLimiter(kLimitedInterval, kLimitedKeys);
  std::optional<uint64_t> left_out =
      limiter.Admit(absl::StrCat(static_cast<int>(event), " ", about), absl::Now());
  if (!left_out) return;
  std::string line = absl::StrCat(about, ": ", text);
  if (*left_out > 0) absl::StrAppend(&line, " (and ", *left_out, " more since the last line)");
  Log(event, line);
}

void LogLimited(Event event, uid_t uid, absl::string_view text) {
  LogLimited(event, absl::StrCat("uid ", uid), text);
}

}  // namespace qpbroker::telemetry
