// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_TELEMETRY_RATE_LIMITER_H_
#define QPBROKER_DAEMON_TELEMETRY_RATE_LIMITER_H_

// Lets something happen once in an interval for each key, and counts the rest.
//
//   RateLimiter limiter(absl::Minutes(1), 1024);
//   std::optional<uint64_t> left_out = limiter.Admit("QPB1200 uid 1000", absl::Now());
//   if (left_out) Write(line, *left_out);
//
// Keys may be a client's doing: there are never more than `max_keys` of them; what comes beyond
// that shares one. Any thread.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace qpbroker::telemetry {

class RateLimiter {
 public:
  RateLimiter(absl::Duration interval, size_t max_keys)
      : interval_(interval), max_keys_(max_keys) {}

  // Nullopt: not now. Otherwise how many were not admitted since the last time.
  std::optional<uint64_t> Admit(absl::string_view key, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct State {
    absl::Time last = absl::InfinitePast();
    uint64_t left_out = 0;
  };
  State& StateOf(absl::string_view key, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration interval_;
  const size_t max_keys_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, State> states_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_sweep_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace qpbroker::telemetry

#endif  // QPBROKER_DAEMON_TELEMETRY_RATE_LIMITER_H_
