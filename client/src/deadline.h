// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_DEADLINE_H_
#define QPBROKER_CLIENT_SRC_DEADLINE_H_

#include <algorithm>
#include <chrono>

namespace qpbroker::client {

// The moment after which a call is given up. The steady clock, so that setting the time of day
// neither hurries nor hangs a call.
using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// Clamped to a year, so that milliseconds::max() does not overflow into the past.
inline Deadline DeadlineAfter(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kYear = std::chrono::hours(24 * 365);
  return Clock::now() + std::clamp(timeout, std::chrono::milliseconds(0), kYear);
}

inline bool Expired(Deadline deadline) { return Clock::now() >= deadline; }

// What is left, never negative.
inline std::chrono::nanoseconds Remaining(Deadline deadline) {
  return std::max<std::chrono::nanoseconds>(deadline - Clock::now(), std::chrono::nanoseconds(0));
}

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_DEADLINE_H_
