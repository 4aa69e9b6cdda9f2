// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_COMMON_EVENT_LOOP_H_
#define QPBROKER_COMMON_EVENT_LOOP_H_

// A thread's epoll loop with timers. Handlers run in the thread of Run(), one at a time, and must
// not block.
//
//   EventLoop loop;
//   loop.Watch(fd, EPOLLIN, [](uint32_t events) { ... });
//   loop.After(absl::Seconds(5), [] { ... });
//   loop.Run();  // until Stop()

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace qpbroker {

class EventLoop {
 public:
  using Handler = std::function<void(uint32_t events)>;
  using Task = absl::AnyInvocable<void() &&>;

  // Aborts when epoll or eventfd cannot be had: nothing works without them.
  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop();

  // Calls `handler` with the EPOLL* bits, level-triggered. The fd stays the caller's, who must call
  // Unwatch *before* closing it: epoll keys on the open description, which a dup keeps alive. Loop
  // thread or before Run only. DAEMON_LIMIT when the kernel has no room for a further watch.
  absl::Status Watch(int fd, uint32_t events, Handler handler);
  // Events of `fd` that were fetched already are not delivered any more. Loop thread only; also
  // from within its own handler.
  void Unwatch(int fd);

  // Runs `task` in the loop thread soon. From any thread.
  void Post(Task task) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs `task` once in the loop thread after `delay`. Loop thread or before Run only.
  void After(absl::Duration delay, Task task);

  // Handles events until Stop.
  void Run();
  // Waits for events and handles those that are there.
  void RunOnce();
  // From any thread; also before Run, which then returns at once.
  void Stop();

 private:
  struct Watched;

  int TimeoutMilliseconds() const;
  void RunTimers();
  void RunPosted() ABSL_LOCKS_EXCLUDED(mutex_);

  UniqueFd epoll_;
  UniqueFd wakeup_;
  bool stopped_ = false;
  absl::flat_hash_map<int, std::unique_ptr<Watched>> watched_;
  // Watches that ended while a batch of events is being handled: freed behind it.
  std::vector<std::unique_ptr<Watched>> retired_;
  std::multimap<absl::Time, Task> timers_;
  absl::Mutex mutex_;
  std::vector<Task> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qpbroker

#endif  // QPBROKER_COMMON_EVENT_LOOP_H_
