// SPDX-License-Identifier: Apache-2.0
//
// The write end of a pipe reports EPOLLERR for as long as no read end is open anywhere.
// Level-triggered watching is therefore enough, and cannot spin: whoever is told that a holder is
// gone either ends the lease, which ends the watch, or finds that a
// read end is open again (the grant was delivered once more), and then the condition is no longer
// reported. A write end that was made, but not yet published, has a reader: the end that is to be
// delivered.
//
// A holder can fill, drain and resize the pipe. Nothing here relies on its capacity: a record that
// does not fit is counted, and the count goes out as one overflow record as soon as there is room.
#include "daemon/session/lease_watcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/error_reason.h"

namespace qpbroker::session {
namespace {

class PipeEnd : public core::LeaseEnd {
 public:
  PipeEnd(UniqueFd fd, int epoll, uint64_t first_sequence)
      : fd_(std::move(fd)), epoll_(epoll), sequence_(first_sequence) {}
  // The keeper has a copy of the write end, which would keep the watch alive.
  ~PipeEnd() override { epoll_ctl(epoll_, EPOLL_CTL_DEL, fd_.get(), nullptr); }

  bool HasHolder() const override {
    pollfd poll_fd{fd_.get(), 0, 0};
    // An error of poll itself tells nothing: the lease stays, and the watch will report again.
    return poll(&poll_fd, 1, 0) <= 0 || (poll_fd.revents & POLLERR) == 0;
  }

  void Send(const EventRecord& record) override {
    absl::MutexLock lock(&mutex_);
    if (lost_ > 0) {
      EventRecord overflow;
      overflow.detail = lost_;
      overflow.sequence = sequence_;
      if (Write(overflow)) lost_ = 0;
    }
    EventRecord numbered = record;
    numbered.sequence = ++sequence_;
    if (lost_ > 0 || !Write(numbered)) ++lost_;
  }

  absl::StatusOr<UniqueFd> ReopenHolderEnd() override {
    UniqueFd holder_end(
        open(absl::StrCat("/proc/self/fd/", fd_.get()).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!holder_end) return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "open");
    return holder_end;
  }

  int fd() const override { return fd_.get(); }

 private:
  // Records are shorter than PIPE_BUF: they go in whole or not at all.
  bool Write(const EventRecord& record) {
    return write(fd_.get(), &record, sizeof(record)) == sizeof(record);
  }

  const UniqueFd fd_;
  const int epoll_;
  absl::Mutex mutex_;
  uint64_t sequence_ ABSL_GUARDED_BY(mutex_);
  uint32_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

LeaseWatcher::LeaseWatcher(EventLoop& loop, std::function<void(core::LeaseId)> on_gone,
                           uint32_t life)
    : loop_(loop),
      on_gone_(std::move(on_gone)),
      first_sequence_(uint64_t{life} << kEventSequenceLifeShift),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_ || !loop_.Watch(epoll_.get(), EPOLLIN, [this](uint32_t) { ReportGone(); }).ok()) {
    std::perror("qpbroker: epoll");
    std::abort();
  }
}

LeaseWatcher::~LeaseWatcher() { loop_.Unwatch(epoll_.get()); }

absl::StatusOr<core::NewLease> LeaseWatcher::CreateLease(core::LeaseId id) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "pipe2");
  }
  UniqueFd holder_end(ends[0]);
  absl::StatusOr<std::unique_ptr<core::LeaseEnd>> end = AdoptLease(id, UniqueFd(ends[1]));
  if (!end.ok()) return end.status();
  return core::NewLease{*std::move(end), std::move(holder_end)};
}

absl::StatusOr<std::unique_ptr<core::LeaseEnd>> LeaseWatcher::AdoptLease(core::LeaseId id,
                                                                         UniqueFd end) {
  epoll_event event{};  // EPOLLERR needs no asking for.
  event.data.u64 = id.value();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, end.get(), &event) != 0) {
    return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "epoll_ctl");
  }
  return std::make_unique<PipeEnd>(std::move(end), epoll_.get(), first_sequence_);
}

void LeaseWatcher::ReportGone() {
  constexpr int kBatch = 256;
  epoll_event events[kBatch];
  const int count = epoll_wait(epoll_.get(), events, kBatch, 0);
  for (int i = 0; i < count; ++i) on_gone_(core::LeaseId(events[i].data.u64));
}

}  // namespace qpbroker::session
