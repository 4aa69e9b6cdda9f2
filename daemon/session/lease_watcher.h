// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_SESSION_LEASE_WATCHER_H_
#define QPBROKER_DAEMON_SESSION_LEASE_WATCHER_H_

// Lease pipes: makes them, and notices when the last copy of a holder's end is closed.
//
//   LeaseWatcher watcher(loop, [&](core::LeaseId id) { broker.LeaseHolderGone(id); });
//
// Both ends are non-blocking: the daemon must never wait for a holder, and a holder that reads
// without an event waiting gets EAGAIN. An end that is opened again for a second delivery is the
// same.
//
// CreateLease and AdoptLease may be called from any thread; `on_gone` is called in the loop's
// thread. The watcher must outlive the lease ends that it made, and the loop the watcher.

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/event_loop.h"
#include "common/unique_fd.h"
#include "daemon/core/ports.h"

namespace qpbroker::session {

class LeaseWatcher : public core::LeasePort {
 public:
  // `life`: how many daemons served these leases before (EventRecord::sequence).
  LeaseWatcher(EventLoop& loop, std::function<void(core::LeaseId)> on_gone, uint32_t life = 0);
  ~LeaseWatcher() override;

  absl::StatusOr<core::NewLease> CreateLease(core::LeaseId id) override;
  absl::StatusOr<std::unique_ptr<core::LeaseEnd>> AdoptLease(core::LeaseId id,
                                                             UniqueFd end) override;

 private:
  void ReportGone();

  EventLoop& loop_;
  const std::function<void(core::LeaseId)> on_gone_;
  const uint64_t first_sequence_;
  // One epoll for all leases, itself watched by the loop: a lease then costs no entry in the loop.
  const UniqueFd epoll_;
};

}  // namespace qpbroker::session

#endif  // QPBROKER_DAEMON_SESSION_LEASE_WATCHER_H_
