// SPDX-License-Identifier: Apache-2.0
//
// A strand is in the pool's queue of runnable strands while it has tasks and none of them runs.
// Threads are started when a task finds none idle, up to the limit, and then stay.
#include "daemon/runtime/strand_executor.h"

#include <utility>

namespace qpbroker::runtime {

class StrandExecutor::Pool {
 public:
  explicit Pool(size_t max_threads) : max_threads_(max_threads) {}

  ~Pool() {
    std::vector<std::thread> threads;
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Post(uint64_t strand, core::Task task) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    std::deque<core::Task>& tasks = strands_[strand];
    tasks.push_back(std::move(task));
    if (tasks.size() > 1) return;  // It is runnable, or running, already.
    runnable_.push_back(strand);
    if (idle_ < runnable_.size() && threads_.size() < max_threads_) {
      threads_.emplace_back([this] { Run(); });
    }
  }

  bool AwaitIdle(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return strands_.empty(); };
    return mutex_.AwaitWithDeadline(absl::Condition(&empty), deadline);
  }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (true) {
      ++idle_;
      auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return !runnable_.empty() || (stopping_ && strands_.empty());
      };
      mutex_.Await(absl::Condition(&ready));
      --idle_;
      if (runnable_.empty()) return;
      const uint64_t strand = runnable_.front();
      runnable_.pop_front();
      core::Task task = std::move(strands_[strand].front());
      mutex_.Unlock();
      std::move(task)();
      task =
          nullptr;  // What it kept is dropped outside the lock, and before the next of its strand.
      mutex_.Lock();
      // The front stays until now: it marks the strand as running.
      std::deque<core::Task>& tasks = strands_[strand];
      tasks.pop_front();
      if (tasks.empty()) {
        strands_.erase(strand);
      } else {
        runnable_.push_back(strand);
      }
    }
  }

  const size_t max_threads_;
  absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::deque<core::Task>> strands_ ABSL_GUARDED_BY(mutex_);
  std::deque<uint64_t> runnable_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

StrandExecutor::StrandExecutor(size_t threads) : threads_(threads) {}

StrandExecutor::~StrandExecutor() { AwaitIdle(absl::InfiniteDuration()); }

void StrandExecutor::Post(absl::string_view device, uint64_t strand, core::Task task) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<Pool>& pool = pools_[device];
  if (pool == nullptr) pool = std::make_unique<Pool>(threads_);
  pool->Post(strand, std::move(task));
}

bool StrandExecutor::AwaitIdle(absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  std::vector<Pool*> pools;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [device, pool] : pools_) pools.push_back(pool.get());
  }
  for (Pool* pool : pools) {
    if (!pool->AwaitIdle(deadline)) return false;
  }
  return true;
}

}  // namespace qpbroker::runtime
