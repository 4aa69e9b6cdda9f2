// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_REGISTRY_H_
#define QPBROKER_DAEMON_CORE_REGISTRY_H_

// The books: domains, QPs, leases, and who refers to whom. The only class that changes a reference
// count; a count *is* the size of a set of leases, so it cannot differ from them. It decides
// nothing. Not thread-safe: the broker's mutex guards it. Aborts if it is destroyed before it is
// empty.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/core/calls.h"
#include "daemon/core/ids.h"
#include "daemon/core/ledger.h"
#include "daemon/core/policy.h"
#include "daemon/core/ports.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::core {

// What the kernel holds for a domain. Members go in the reverse order: domain, file, device.
struct KernelXrcd {
  std::shared_ptr<verbs::Device> device;
  std::shared_ptr<DomainFile> file;
  std::unique_ptr<verbs::Xrcd> xrcd;
};

// What the kernel holds for a QP.
struct KernelQp {
  std::shared_ptr<KernelXrcd> xrcd;
  std::unique_ptr<verbs::TargetQp> qp;  // Null once it was destroyed.
};

// A call that waits for somebody else's creation of the same object and then begins anew.
using Waiters = std::vector<Task>;

struct XrcdRecord {
  XrcdId id;
  XrcdKey key;
  DomainAcl acl;
  XrcdLife life = XrcdLife::kLeases;
  absl::Time created;
  Charge charge;  // The owner's.

  std::shared_ptr<KeptEntry> kept;

  bool destroyed = false;              // Has no name any more: no new opens.
  bool releasing = false;              // Its kernel object is being closed.
  std::shared_ptr<KernelXrcd> kernel;  // Null while it is being opened.
  Waiters waiters;

  absl::btree_set<LeaseId> leases;            // On the domain itself.
  absl::btree_set<QpId> qps;                  // In whatever state.
  absl::btree_map<uint32_t, QpId> by_number;  // Those that the broker holds.
  absl::flat_hash_map<std::string, QpId> by_key;

  // Whether QPs of QpLife::kDomain live on.
  bool KeepsQps() const { return !leases.empty() || (life == XrcdLife::kPersistent && !destroyed); }
};

enum class QpPhase : uint8_t {
  kCreating,   // No number yet.
  kLive,       // Held by the broker.
  kReleasing,  // Its kernel object is being destroyed.
  kLingering,  // The broker let go of it, or tried to, and the kernel still has it.
};

// A call's idempotency key: whose, and which.
using RequestKey = std::pair<uid_t, std::string>;

struct QpRecord {
  QpId id;
  XrcdId xrcd;
  std::string key;
  QpLife life = QpLife::kHolders;
  uid_t creator = 0;
  absl::Time created;
  uint32_t psn = 0;  // First PSN of this side, unless ConnectQp says otherwise.
  uint8_t port = 1;
  Charge charge;       // The domain's owner's.
  RequestKey request;  // Of the call that created it without a lease; else empty.
  std::shared_ptr<KeptEntry> kept;

  QpPhase phase = QpPhase::kCreating;
  bool destroyed = false;  // Has no key any more: no new opens.
  uint32_t number = 0;
  std::shared_ptr<KernelQp> kernel;
  Waiters waiters;

  absl::btree_set<LeaseId> leases;
};

struct LeaseRecord {
  LeaseId id;
  XrcdId xrcd;
  std::optional<QpId> qp;  // Set: a lease on this QP; otherwise on the domain.
  uid_t uid = 0;
  pid_t pid = 0;
  absl::Time created;
  Charge charge;  // The holder's.
  std::shared_ptr<LeaseEnd> end;
  RequestKey request;
  std::shared_ptr<KeptEntry> kept;
  bool created_target = false;  // The call that got it also created the object.
};

// What a request_id stands for.
struct RequestEntry {
  uint64_t fingerprint = 0;
  // Neither: the call is still being carried out.
  std::optional<LeaseId> lease;
  std::optional<QpId> qp;  // A QP that was created without a lease.
};

class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  ~Registry();

  // From now on ids are those of the `life`-th life of the daemon, which no earlier one gave.
  void BeginLife(uint32_t life);

  // ---- Domains. A new one has its name and is still being opened.
  XrcdRecord& AddXrcd(XrcdKey key, DomainAcl acl, XrcdLife life, absl::Time now, Charge charge);
  // One from an earlier life, with its id.
  XrcdRecord& AdoptXrcd(std::unique_ptr<XrcdRecord> xrcd);
  XrcdRecord* FindXrcd(XrcdId id);
  XrcdRecord* FindXrcd(const XrcdKey& key);  // By name: not a destroyed one.
  void MarkDestroyed(XrcdRecord& xrcd);
  // It must have neither leases nor QPs. The record is for the caller to drop, outside the lock.
  std::unique_ptr<XrcdRecord> RemoveXrcd(XrcdRecord& xrcd);

  // ---- QPs. A new one has its key and no number yet.
  QpRecord& AddQp(XrcdRecord& xrcd, std::string key, QpLife life, uid_t creator, absl::Time now,
                  Charge charge);
  QpRecord& AdoptQp(std::unique_ptr<QpRecord> qp);
  QpRecord* FindQp(QpId id);
  QpRecord* FindQp(const XrcdRecord& xrcd, uint32_t number);
  QpRecord* FindQpByKey(const XrcdRecord& xrcd, absl::string_view key);
  void SetLive(QpRecord& qp, std::shared_ptr<KernelQp> kernel);
  void MarkDestroyed(QpRecord& qp);
  // Takes the QP's number and key out of the domain; it must have no leases.
  void SetReleasing(QpRecord& qp);
  std::unique_ptr<QpRecord> RemoveQp(QpRecord& qp);

  // ---- Leases.
  LeaseId NextLeaseId() { return LeaseId(++last_lease_); }
  // Adds one reference to the target.
  LeaseRecord& AddLease(std::unique_ptr<LeaseRecord> lease);
  LeaseRecord* FindLease(LeaseId id);
  // Takes it away again.
  std::unique_ptr<LeaseRecord> RemoveLease(LeaseRecord& lease);

  // ---- Requests that may be repeated.
  RequestEntry* FindRequest(const RequestKey& key);
  RequestEntry& AddRequest(const RequestKey& key, uint64_t fingerprint);
  void RemoveRequest(const RequestKey& key);

  const absl::btree_map<XrcdId, std::unique_ptr<XrcdRecord>>& xrcds() const { return xrcds_; }
  const absl::btree_map<QpId, std::unique_ptr<QpRecord>>& qps() const { return qps_; }
  const absl::btree_map<LeaseId, std::unique_ptr<LeaseRecord>>& leases() const { return leases_; }
  const absl::flat_hash_map<XrcdKey, XrcdId>& names() const { return names_; }
  size_t requests() const { return requests_.size(); }

 private:
  // The references to the lease's target.
  absl::btree_set<LeaseId>& HoldersOf(const LeaseRecord& lease);

  uint64_t last_xrcd_ = 0;
  uint64_t last_qp_ = 0;
  uint64_t last_lease_ = 0;
  absl::btree_map<XrcdId, std::unique_ptr<XrcdRecord>> xrcds_;
  absl::btree_map<QpId, std::unique_ptr<QpRecord>> qps_;
  absl::btree_map<LeaseId, std::unique_ptr<LeaseRecord>> leases_;
  absl::flat_hash_map<XrcdKey, XrcdId> names_;
  absl::flat_hash_map<RequestKey, RequestEntry> requests_;
};

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_REGISTRY_H_
