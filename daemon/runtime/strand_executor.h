// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RUNTIME_STRAND_EXECUTOR_H_
#define QPBROKER_DAEMON_RUNTIME_STRAND_EXECUTOR_H_

// Runs verbs calls: a bounded pool of threads for each device, so that one slow device delays no
// other, and in it one task after another for each strand, so that one slow object delays no other.

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/core/ports.h"

namespace qpbroker::runtime {

class StrandExecutor : public core::Executor {
 public:
  // At most `threads` tasks of one device run at the same time.
  explicit StrandExecutor(size_t threads);
  StrandExecutor(const StrandExecutor&) = delete;
  StrandExecutor& operator=(const StrandExecutor&) = delete;
  // Runs what was posted to its end.
  ~StrandExecutor() override;

  void Post(absl::string_view device, uint64_t strand, core::Task task) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until nothing runs or waits. False: not within `limit`.
  bool AwaitIdle(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Pool;

  const size_t threads_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::unique_ptr<Pool>> pools_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qpbroker::runtime

#endif  // QPBROKER_DAEMON_RUNTIME_STRAND_EXECUTOR_H_
