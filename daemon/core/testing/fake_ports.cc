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
    if (port_.muted_) return;
    EventRecord numbered = record;
    numbered.sequence = ++sequence_;
    [[maybe_unused]] ssize_t n = write(fd_.get(), &numbered, sizeof(numbered));
  }
  absl::StatusOr<UniqueFd> ReopenHolderEnd() override {
    return OpenThroughProc(fd_.get(), O_RDONLY | O_NONBLOCK);
  }
  int fd() const override { return fd_.get(); }

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

absl::StatusOr<std::unique_ptr<LeaseEnd>> FakeLeasePort::AdoptLease(LeaseId id, UniqueFd end) {
  if (FailsNow()) return ErrnoError(v1::REASON_DAEMON_LIMIT, ENOSPC, "epoll_ctl");
  return std::make_unique<End>(*this, id, std::move(end));
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
  MemoryFile(std::string name, UniqueFd fd, std::shared_ptr<int> files)
      : name_(std::move(name)), fd_(std::move(fd)), files_(std::move(files)) {
    ++*files_;
  }
  ~MemoryFile() override { --*files_; }
  int fd() const override { return fd_.get(); }
  const std::string& name() const override { return name_; }
  absl::StatusOr<UniqueFd> ReopenReadOnly() const override {
    return OpenThroughProc(fd_.get(), O_RDONLY);
  }

 private:
  const std::string name_;
  const UniqueFd fd_;
  const std::shared_ptr<int> files_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DomainFile>> FakeDomainFilePort::CreateDomainFile() {
  if (FailsNow()) return ErrnoError(v1::REASON_DAEMON_LIMIT, ENOSPC, "openat");
  UniqueFd fd(memfd_create("domain", MFD_CLOEXEC));
  if (!fd) std::abort();
  return std::make_unique<MemoryFile>("domain", std::move(fd), files_);
}

absl::StatusOr<std::unique_ptr<DomainFile>> FakeDomainFilePort::AdoptDomainFile(
    const std::string& name, UniqueFd fd) {
  if (FailsNow()) return MakeError(v1::REASON_INVALID_FIELD);
  return std::make_unique<MemoryFile>(name, std::move(fd), files_);
}

// ---- The keeper.

class FakeKeeperPort::Entry : public KeptEntry {
 public:
  Entry(FakeKeeperPort& port, uint64_t id) : port_(port), id_(id) {}
  ~Entry() override {
    if (port_.Hears()) port_.entries_.erase(id_);
  }

  void Keep(const keeper::v1::Record& record, std::vector<SharedFd> fds) override {
    if (!port_.Hears()) return;
    Kept& kept = port_.entries_[id_];
    kept.record = record;
    if (fds.empty()) return;
    kept.fds.clear();
    for (const SharedFd& shared : fds) {
      kept.fds.emplace_back(fcntl(shared.fd, F_DUPFD_CLOEXEC, 0));
      if (!kept.fds.back()) std::abort();
    }
  }

 private:
  FakeKeeperPort& port_;
  const uint64_t id_;
};

bool FakeKeeperPort::Hears() {
  if (deaf_ || (deafen_after_ >= 0 && deafen_after_-- == 0)) deaf_ = true;
  if (!deaf_) ++messages_;
  return !deaf_;
}

std::shared_ptr<KeptEntry> FakeKeeperPort::NewEntry() {
  return std::make_shared<Entry>(*this, ++last_);
}

std::vector<KeptObject> FakeKeeperPort::TakeAll() {
  deaf_ = false;
  deafen_after_ = -1;
  std::vector<KeptObject> all;
  for (auto& [id, kept] : entries_) {
    KeptObject object{kept.record, {}, std::make_shared<Entry>(*this, id)};
    for (const UniqueFd& fd : kept.fds)
      object.fds.emplace_back(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    all.push_back(std::move(object));
  }
  return all;
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

void FakeJournal::Difference(absl::string_view object, absl::string_view action) {
  lines.push_back(absl::StrCat(object, ": ", action));
}

}  // namespace qpbroker::core
