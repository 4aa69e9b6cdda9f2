// SPDX-License-Identifier: Apache-2.0
#include "daemon/telemetry/rate_limiter.h"

#include <utility>

namespace qpbroker::telemetry {
namespace {

constexpr absl::string_view kShared = "";

}  // namespace

std::optional<uint64_t> RateLimiter::Admit(absl::string_view key, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  State& state = StateOf(key, now);
  if (now - state.last < interval_) {
    ++state.left_out;
    return std::nullopt;
  }
  state.last = now;
  return std::exchange(state.left_out, 0);
}

RateLimiter::State& RateLimiter::StateOf(absl::string_view key, absl::Time now) {
  auto found = states_.find(key);
  if (found != states_.end()) return found->second;
  // A look at every key is made once in an interval at the most, not for every stranger.
  if (states_.size() >= max_keys_ && now - last_sweep_ >= interval_) {
    last_sweep_ = now;
    absl::erase_if(states_, [&](const auto& entry) {
      return entry.second.left_out == 0 && now - entry.second.last >= interval_;
    });
  }
  return states_[states_.size() < max_keys_ ? key : kShared];
}

}  // namespace qpbroker::telemetry
