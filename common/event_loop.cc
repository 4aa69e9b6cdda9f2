// SPDX-License-Identifier: Apache-2.0
#include "common/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "absl/time/clock.h"
#include "common/error_reason.h"

namespace qpbroker {

// What epoll gives back is the address of this: an event that was fetched before its watch ended
// finds an inactive entry, never another fd's handler.
struct EventLoop::Watched {
  Handler handler;
  bool active = true;
};

EventLoop::EventLoop()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  absl::Status watched = Watch(wakeup_.get(), EPOLLIN, [this](uint32_t) {
    uint64_t count;
    [[maybe_unused]] ssize_t n = read(wakeup_.get(), &count, sizeof(count));
    RunPosted();
  });
  if (!epoll_ || !wakeup_ || !watched.ok()) {
    std::perror("qpbroker: epoll");
    std::abort();
  }
}

EventLoop::~EventLoop() = default;

absl::Status EventLoop::Watch(int fd, uint32_t events, Handler handler) {
  auto watched = std::make_unique<Watched>(Watched{std::move(handler)});
  epoll_event event{};
  event.events = events;
  event.data.ptr = watched.get();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "epoll_ctl");
  }
  watched_[fd] = std::move(watched);
  return absl::OkStatus();
}

void EventLoop::Unwatch(int fd) {
  auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  found->second->active = false;
  retired_.push_back(std::move(found->second));
  watched_.erase(found);
}

void EventLoop::Post(Task task) {
  {
    absl::MutexLock lock(&mutex_);
    posted_.push_back(std::move(task));
    if (posted_.size() > 1) return;  // The first one has rung already.
  }
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(wakeup_.get(), &one, sizeof(one));
}

void EventLoop::After(absl::Duration delay, Task task) {
  timers_.emplace(absl::Now() + delay, std::move(task));
}

void EventLoop::Stop() {
  Post([this] { stopped_ = true; });
}

int EventLoop::TimeoutMilliseconds() const {
  if (timers_.empty()) return -1;
  absl::Duration wait = std::max(timers_.begin()->first - absl::Now(), absl::ZeroDuration());
  int64_t milliseconds = absl::ToInt64Milliseconds(wait) + 1;
  return static_cast<int>(std::min<int64_t>(milliseconds, std::numeric_limits<int>::max()));
}

void EventLoop::RunTimers() {
  while (!stopped_ && !timers_.empty() && timers_.begin()->first <= absl::Now()) {
    Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    std::move(task)();
  }
}

void EventLoop::RunPosted() {
  std::vector<Task> tasks;
  {
    absl::MutexLock lock(&mutex_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks) std::move(task)();
}

void EventLoop::Run() {
  while (!stopped_) RunOnce();
}

void EventLoop::RunOnce() {
  constexpr int kBatch = 64;
  epoll_event events[kBatch];
  int count = epoll_wait(epoll_.get(), events, kBatch, TimeoutMilliseconds());
  for (int i = 0; i < count; ++i) {
    auto* watched = static_cast<Watched*>(events[i].data.ptr);
    if (watched->active) watched->handler(events[i].events);
  }
  retired_.clear();
  RunTimers();
}

}  // namespace qpbroker
