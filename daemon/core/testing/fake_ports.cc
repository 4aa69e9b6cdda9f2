// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/testing/fake_ports.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"

namespace qpbroker::core {
namespace {

absl::StatusOr<UniqueFd> OpenThroughProc(int fd, int flags) {
  UniqueFd opened(open(absl::StrCat("/proc/self/fd/", fd).c_str(), flags | O_CLOEXEC));
  if (!opened) return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "open");
  return opened;
}

}  // namespace

class FakeLeasePort::End : public LeaseEnd {
 public:
  End(FakeLeasePort& port, LeaseId id, UniqueFd fd) : port_(port), id_(id), fd_(std::move(fd)) {
    port_.ends_[id_] = this;
  }
  ~End() override { port_.ends_.erase(id_); }

  bool HasHolder() const override {
    pollfd poll_fd{fd_.get(), 0, 0};
    return poll(&poll_fd, 1, 0) == 0 || (poll_fd.revents & POLLERR) == 0;
  }
  void Send(const EventRecord& record) override {
    EventRecord numbered = record;
    numbered.sequence = ++sequence_;
    [[maybe_unused]] ssize_t n = write(fd_.get(), &numbered, sizeof(numbered));
  }
  absl::StatusOr<UniqueFd> ReopenHolderEnd() override {
    return OpenThroughProc(fd_.get(), O_RDONLY | O_NONBLOCK);
  }

 private:
  FakeLeasePort& port_;
  const LeaseId id_;
  const UniqueFd fd_;
  uint64_t sequence_ = 0;
};

absl::StatusOr<NewLease> FakeLeasePort::CreateLease(LeaseId id) {
  int ends[2];
  if (FailsNow()) return ErrnoError(v1::REASON_DAEMON_LIMIT, EMFILE, "pipe2");
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
  return NewLease{std::make_unique<End>(*this, id, UniqueFd(ends[1])), UniqueFd(ends[0])};
}

std::vector<LeaseId> FakeLeasePort::WithoutHolder() const {
  std::vector<LeaseId> gone;
  for (const auto& [id, end] : ends_) {
    if (!end->HasHolder()) gone.push_back(id);
  }
  return gone;
}

namespace {

class MemoryFile : public DomainFile {
 public:
  MemoryFile(UniqueFd fd, std::shared_ptr<int> files)
      : fd_(std::move(fd)), files_(std::move(files)) {
    ++*files_;
  }
  ~MemoryFile() override { --*files_; }
  int fd() const override { return fd_.get(); }
  absl::StatusOr<UniqueFd> ReopenReadOnly() const override {
    return OpenThroughProc(fd_.get(), O_RDONLY);
  }

 private:
  const UniqueFd fd_;
  const std::shared_ptr<int> files_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DomainFile>> FakeDomainFilePort::CreateDomainFile() {
  if (FailsNow()) return ErrnoError(v1::REASON_DAEMON_LIMIT, ENOSPC, "openat");
  UniqueFd fd(memfd_create("domain", MFD_CLOEXEC));
  if (!fd) std::abort();
  return std::make_unique<MemoryFile>(std::move(fd), files_);
}

absl::Status FakeDeliveryPort::Deliver(SessionId session, const v1::FdDelivery& delivery,
                                       absl::Span<const int> fds) {
  if (FailsNow()) return MakeError(v1::REASON_SESSION_BACKLOG);
  Delivered delivered{delivery.grant_id(), delivery.request_id(), {}, {}};
  for (size_t i = 0; i < fds.size(); ++i) {
    UniqueFd copy(fcntl(fds[i], F_DUPFD_CLOEXEC, 0));
    (delivery.fds(static_cast<int>(i)) == v1::FD_KIND_LEASE ? delivered.lease : delivered.xrcd) =
        std::move(copy);
  }
  queues_[session].push_back(std::move(delivered));
  return absl::OkStatus();
}

Delivered FakeDeliveryPort::Take(SessionId session) {
  auto& queue = queues_[session];
  if (queue.empty()) std::abort();
  Delivered delivered = std::move(queue.front());
  queue.pop_front();
  return delivered;
}

size_t FakeDeliveryPort::waiting(SessionId session) const {
  auto found = queues_.find(session);
  return found == queues_.end() ? 0 : found->second.size();
}

void FakeExecutor::Post(absl::string_view, uint64_t strand, Task task) {
  tasks_.push_back({strand, std::move(task)});
}

bool FakeExecutor::RunOne() {
  for (auto it = tasks_.begin(); it != tasks_.end(); ++it) {
    if (held_.contains(it->strand)) continue;
    Task task = std::move(it->task);
    tasks_.erase(it);
    std::move(task)();
    return true;
  }
  return false;
}

void FakeExecutor::RunAll() {
  while (RunOne()) {
  }
}

void FakeJournal::ReleaseFailed(absl::string_view object, const absl::Status& why) {
  lines.push_back(absl::StrCat(object, ": ", why.ToString()));
}

}  // namespace qpbroker::core
