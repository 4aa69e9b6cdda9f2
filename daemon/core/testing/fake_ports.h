// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_TESTING_FAKE_PORTS_H_
#define QPBROKER_DAEMON_CORE_TESTING_FAKE_PORTS_H_

// The broker's surroundings, in memory: real pipes and files, delivery into a map, an executor that
// runs when told, a clock that stands. Each can be made to fail. Not thread-safe.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/ports.h"

namespace qpbroker::core {

// Makes one call of a port fail.
class FailPoint {
 public:
  // The n-th call from now fails (1: the next); 0: none.
  void FailNth(int n) {
    fail_in_ = n;
    failed_ = false;
  }
  // Whether the call that was to fail did.
  bool failed() const { return failed_; }

 protected:
  // Counts down; true for the call that is to fail.
  bool FailsNow() {
    failed_ = failed_ || fail_in_ == 1;
    return fail_in_ > 0 && --fail_in_ == 0;
  }

 private:
  int fail_in_ = 0;
  bool failed_ = false;
};

// Pipes as the real daemon makes them.
class FakeLeasePort : public LeasePort, public FailPoint {
 public:
  absl::StatusOr<NewLease> CreateLease(LeaseId id) override;
  absl::StatusOr<std::unique_ptr<LeaseEnd>> AdoptLease(LeaseId id, UniqueFd end) override;

  // Leases whose last holder's end was closed, as the watcher would report them.
  std::vector<LeaseId> WithoutHolder() const;
  // No event is sent any more, or is again.
  void Mute(bool muted) { muted_ = muted; }

 private:
  class End;
  bool muted_ = false;
  std::map<LeaseId, const End*> ends_;
};

class FakeDomainFilePort : public DomainFilePort, public FailPoint {
 public:
  absl::StatusOr<std::unique_ptr<DomainFile>> CreateDomainFile() override;
  absl::StatusOr<std::unique_ptr<DomainFile>> AdoptDomainFile(const std::string& name,
                                                              UniqueFd fd) override;
  int files() const { return *files_; }

 private:
  std::shared_ptr<int> files_ = std::make_shared<int>(0);
};

// What a client got.
struct Delivered {
  uint64_t grant_id = 0;
  std::string request_id;
  UniqueFd lease;
  UniqueFd xrcd;
};

class FakeDeliveryPort : public DeliveryPort, public FailPoint {
 public:
  absl::Status Deliver(SessionId session, const v1::FdDelivery& delivery,
                       absl::Span<const int> fds) override;
  // The oldest delivery of `session` that was not taken yet; aborts if there is none.
  Delivered Take(SessionId session);
  size_t waiting(SessionId session) const;
  // As if the client died: what it did not take is closed.
  void Drop(SessionId session) { queues_.erase(session); }
  void DropAll() { queues_.clear(); }

 private:
  std::map<SessionId, std::deque<Delivered>> queues_;
};

// The keeper, as it is behind KeeperClient: what was handed to it stays when the broker goes.
class FakeKeeperPort : public KeeperPort {
 public:
  struct Kept {
    keeper::v1::Record record;
    std::vector<UniqueFd> fds;
  };

  std::shared_ptr<KeptEntry> NewEntry() override;

  // As if the daemon had died here: what it says from now on is lost.
  void Deafen() { deaf_ = true; }
  // Everything, for a new daemon, which is listened to again.
  std::vector<KeptObject> TakeAll();
  // By the order of their coming. Tests may spoil them.
  std::map<uint64_t, Kept>& entries() { return entries_; }
  // Messages so far.
  int messages() const { return messages_; }
  // Deafens after that many messages from now; -1: never.
  void DeafenAfter(int messages) { deafen_after_ = messages; }

 private:
  class Entry;
  // Whether this message is heard.
  bool Hears();

  std::map<uint64_t, Kept> entries_;
  uint64_t last_ = 0;
  bool deaf_ = false;
  int deafen_after_ = -1;
  int messages_ = 0;
};

class FakeExecutor : public Executor {
 public:
  void Post(absl::string_view device, uint64_t strand, Task task) override;
  // Runs everything, also what comes meanwhile, in the order of its coming.
  void RunAll();
  // Runs the oldest task; false if there is none.
  bool RunOne();
  // Keeps the tasks of one strand back until Unhold.
  void Hold(uint64_t strand) { held_.insert(strand); }
  void Unhold(uint64_t strand) { held_.erase(strand); }

 private:
  struct Posted {
    uint64_t strand;
    Task task;
  };
  std::deque<Posted> tasks_;
  std::set<uint64_t> held_;
};

class FakeEnvironment : public Environment {
 public:
  absl::Time Now() override { return now; }
  uint64_t Random() override { return ++random; }
  absl::Time now = absl::FromUnixSeconds(1'000'000'000);
  uint64_t random = 0;
};

class FakeJournal : public Journal {
 public:
  void ReleaseFailed(absl::string_view object, const absl::Status& why) override;
  void Difference(absl::string_view object, absl::string_view action) override;
  std::vector<std::string> lines;
};

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_TESTING_FAKE_PORTS_H_
