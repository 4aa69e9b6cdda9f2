// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_PORTS_H_
#define QPBROKER_DAEMON_CORE_PORTS_H_

// What the broker needs of the world besides devices (daemon/verbs/verbs.h). Each is implemented
// once in the daemon and once, in memory, for the tests.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/event_record.h"
#include "common/unique_fd.h"
#include "daemon/core/ids.h"
#include "qpbroker/keeper/v1/record.pb.h"
#include "qpbroker/v1/session.pb.h"

namespace qpbroker::core {

// The daemon's end of a lease: the write end of a pipe. Destroying it hangs the holder up.
class LeaseEnd {
 public:
  virtual ~LeaseEnd() = default;
  // Whether any copy of the holder's end is open anywhere.
  virtual bool HasHolder() const = 0;
  // Queues an event for the holder. Never blocks and never fails: what does not fit is counted and
  // becomes one kOverflow record later. Sets `sequence`.
  virtual void Send(const EventRecord& record) = 0;
  // A further copy of the holder's end, to deliver a grant once more.
  virtual absl::StatusOr<UniqueFd> ReopenHolderEnd() = 0;
  // The write end itself, for the keeper.
  virtual int fd() const = 0;
};

struct NewLease {
  std::unique_ptr<LeaseEnd> end;
  UniqueFd holder_end;
};

// Makes lease pipes and watches them: when the last copy of a holder's end is closed, the owner of
// the port calls Broker::LeaseHolderGone.
class LeasePort {
 public:
  virtual ~LeasePort() = default;
  // DAEMON_LIMIT when out of descriptors.
  virtual absl::StatusOr<NewLease> CreateLease(LeaseId id) = 0;
  // The end of a lease that an earlier daemon made. DAEMON_LIMIT.
  virtual absl::StatusOr<std::unique_ptr<LeaseEnd>> AdoptLease(LeaseId id, UniqueFd end) = 0;
};

// The private file that is a domain's identity in the kernel. Destroying it removes the file.
class DomainFile {
 public:
  virtual ~DomainFile() = default;
  virtual int fd() const = 0;
  // In the state directory.
  virtual const std::string& name() const = 0;
  // A read-only descriptor of an open file description of its own, to hand out.
  virtual absl::StatusOr<UniqueFd> ReopenReadOnly() const = 0;
};

class DomainFilePort {
 public:
  virtual ~DomainFilePort() = default;
  // A new empty file that nobody else can name. DAEMON_LIMIT when out of descriptors or space.
  virtual absl::StatusOr<std::unique_ptr<DomainFile>> CreateDomainFile() = 0;
  // A file that an earlier daemon made under this name. INVALID_FIELD if it is none of ours.
  virtual absl::StatusOr<std::unique_ptr<DomainFile>> AdoptDomainFile(const std::string& name,
                                                                      UniqueFd fd) = 0;
};

// A descriptor and what keeps it open.
struct SharedFd {
  std::shared_ptr<const void> owner;
  int fd = -1;
};

// What the keeper holds of one object. Its destruction has the keeper forget it.
class KeptEntry {
 public:
  virtual ~KeptEntry() = default;
  // Hands the record and the descriptors to the keeper, or replaces the record; without descriptors
  // those from before stay. Never blocks and never fails: what the keeper cannot take now, it gets
  // as soon as it can.
  virtual void Keep(const keeper::v1::Record& record, std::vector<SharedFd> fds) = 0;
};

// What survives this process (daemon/keeper).
class KeeperPort {
 public:
  virtual ~KeeperPort() = default;
  // An entry that is empty yet.
  virtual std::shared_ptr<KeptEntry> NewEntry() = 0;
};

// What an earlier daemon left with the keeper.
struct KeptObject {
  keeper::v1::Record record;
  std::vector<UniqueFd> fds;
  std::shared_ptr<KeptEntry> entry;
};

// Hands descriptors to a session. Never blocks.
class DeliveryPort {
 public:
  virtual ~DeliveryPort() = default;
  // SESSION_GONE, SESSION_BACKLOG or DAEMON_LIMIT: nothing was delivered.
  virtual absl::Status Deliver(SessionId session, const v1::FdDelivery& delivery,
                               absl::Span<const int> fds) = 0;
};

using Task = absl::AnyInvocable<void() &&>;

// Runs what may take long: a bounded number of threads for each device. Tasks of one strand run one
// after another in the order of their coming; tasks of different strands at the same time.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Post(absl::string_view device, uint64_t strand, Task task) = 0;
};

// Time of day and randomness.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual absl::Time Now() = 0;
  virtual uint64_t Random() = 0;
};

// Where the broker says what an administrator should know. Implementations limit repeated lines.
class Journal {
 public:
  virtual ~Journal() = default;
  // The kernel did not take an object back: it stays in the books as lingering and is tried again.
  virtual void ReleaseFailed(absl::string_view object, const absl::Status& why) = 0;
  // What an earlier daemon left is not what the kernel has; `action`: what was done about it.
  virtual void Difference(absl::string_view object, absl::string_view action) = 0;
};

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_PORTS_H_
