// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_BROKER_INTERNAL_H_
#define QPBROKER_DAEMON_CORE_BROKER_INTERNAL_H_

// What the broker's implementation files share.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/unique_fd.h"
#include "daemon/core/broker.h"
#include "daemon/core/kept_record.h"

namespace qpbroker::core {

// What has to happen once the mutex is free: declared before the lock is taken, so that it runs
// (and drops what it keeps) after the lock is released.
//
//   Later later;
//   absl::MutexLock lock(&mutex_);
//   later.Run([done = std::move(done)]() mutable { std::move(done)(answer); });
class Broker::Later {
 public:
  Later() = default;
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;
  ~Later() {
    for (Task& task : tasks_) std::move(task)();
  }

  void Run(Task task) { tasks_.push_back(std::move(task)); }
  void RunAll(Waiters waiters) {
    for (Task& task : waiters) tasks_.push_back(std::move(task));
  }
  // Destroys `object` then: closing descriptors and freeing records needs no lock.
  template <class T>
  void Drop(std::unique_ptr<T> object) {
    tasks_.push_back([object = std::move(object)] {});
  }

 private:
  std::vector<Task> tasks_;
};

// A lease that is in the books and not yet in the keeper's nor in its holder's hands. It shares
// what the keeper needs with the books, in case that the lease ends meanwhile.
struct Broker::Handover {
  LeaseId lease;  // 0: nothing to deliver.
  SessionId session;
  std::string request_id;
  UniqueFd holder_end;
  UniqueFd xrcd_file;  // Only with a lease on a domain.
  keeper::v1::Record record;
  std::shared_ptr<LeaseEnd> end;
  std::shared_ptr<KeptEntry> kept;
};

inline absl::Status Denied() { return MakeError(v1::REASON_PERMISSION_DENIED); }

inline RequestKey RequestKeyOf(const Caller& caller, const RequestTag& tag) {
  return {caller.identity.uid, tag.id};
}

inline const std::string& DeviceNameOf(const XrcdRecord& xrcd) { return xrcd.key.device; }

// Strands of the executor: one for each QP, for each domain, and one for the device itself.
inline constexpr uint64_t kDeviceStrand = 0;
inline uint64_t StrandOf(QpId id) { return id.value(); }
inline uint64_t StrandOf(XrcdId id) { return id.value() | (uint64_t{1} << 63); }

// What a remote side needs to know of a QP behind `port`.
QpEndpoint EndpointOf(uint32_t qp_num, uint32_t psn, const verbs::PortInfo& port);

// The port of that number; INVALID_FIELD if the device has none.
absl::StatusOr<verbs::PortInfo> QueryPort(verbs::Device& device, uint8_t number);

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_BROKER_INTERNAL_H_
