// SPDX-License-Identifier: Apache-2.0
//
// Taking over what an earlier daemon left. What counts is what is true now: the keeper's records
// say what things are, the kernel says whether they exist, and the lease pipes say who holds them.
//
// The earlier daemon can have died between any two of its steps. What it had told the keeper last
// is at most one step behind the kernel, and that one step is told from the records themselves: of
// two domains of one name, or two QPs of one number or key, the younger exists, since the elder's
// had to be free for it; what has no holder any more is released as if it had just happened; and
// what the kernel has without a record is kept open by the earlier daemon's context alone, with
// which it goes.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/broker.h"
#include "daemon/core/broker_internal.h"
#include "daemon/core/kept_record.h"

namespace qpbroker::core {

// The state of one Restore. It makes verbs calls while it holds the mutex: nobody waits for it yet.
class Broker::Restorer {
 public:
  explicit Restorer(Broker& broker) : broker_(broker), registry_(broker.registry_) {}

  // With the broker's mutex held.
  void Run(std::vector<KeptObject> kept, Later& later);
  RestoreReport report() const { return report_; }

 private:
  template <class Record>
  struct Kept {
    std::unique_ptr<Record> record;
    KeptObject object;
  };

  void Sort(std::vector<KeptObject> kept);
  void RestoreXrcd(std::unique_ptr<XrcdRecord> xrcd, KeptObject object)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(broker_.mutex_);
  absl::StatusOr<std::shared_ptr<KernelXrcd>> OpenXrcd(const XrcdKey& key, KeptObject& object)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(broker_.mutex_);
  // False: there is none.
  bool RestoreQp(std::unique_ptr<QpRecord> qp, std::shared_ptr<KeptEntry> entry,
                 uint64_t fingerprint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(broker_.mutex_);
  bool RebuildQp(const LeaseRecord& lease, uint32_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(broker_.mutex_);
  void RestoreLease(std::unique_ptr<LeaseRecord> lease, KeptObject object)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(broker_.mutex_);
  void CloseContext(KeptObject device, Later& later);
  // Whether what the lease is on is there.
  bool HasTarget(const LeaseRecord& lease, uint32_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(broker_.mutex_);
  void Differ(absl::string_view object, absl::string_view action);

  Broker& broker_;
  Registry& registry_;
  RestoreReport report_;
  absl::btree_map<uint64_t, Kept<XrcdRecord>> xrcds_;
  // The youngest first.
  absl::btree_map<uint64_t, Kept<QpRecord>, std::greater<>> qps_;
  absl::btree_map<uint64_t, Kept<LeaseRecord>> leases_;
  // The earlier daemon's contexts.
  std::vector<KeptObject> devices_;
};

RestoreReport Broker::Restore(std::vector<KeptObject> kept) {
  Restorer restorer(*this);
  Later later;
  absl::MutexLock lock(&mutex_);
  restorer.Run(std::move(kept), later);
  return restorer.report();
}

void Broker::Restorer::Run(std::vector<KeptObject> kept, Later& later) {
  broker_.mutex_.AssertHeld();
  Sort(std::move(kept));
  for (auto& [id, xrcd] : xrcds_) RestoreXrcd(std::move(xrcd.record), std::move(xrcd.object));
  for (auto& [id, qp] : qps_) {
    const uint64_t fingerprint = qp.object.record.qp().request().fingerprint();
    RestoreQp(std::move(qp.record), std::move(qp.object.entry), fingerprint);
  }
  for (auto& [id, lease] : leases_) RestoreLease(std::move(lease.record), std::move(lease.object));
  if (devices_.empty()) later.Run([&broker = broker_] { broker.ReleaseUnused(); });
  for (KeptObject& device : devices_) CloseContext(std::move(device), later);
}

// Everything worth keeping is open in this process now. Closing the last descriptor of a context
// has the kernel destroy what is left in it, which may take long: first the keeper lets go. Until
// then a QP that is released here would seem to have another holder.
void Broker::Restorer::CloseContext(KeptObject device, Later& later) {
  later.Run([&broker = broker_, device = std::move(device)]() mutable {
    device.entry.reset();
    const std::string name = device.record.device().name();
    broker.ports_.executor->Post(name, kDeviceStrand,
                                 [&broker, fds = std::move(device.fds)]() mutable {
                                   fds.clear();
                                   broker.ReleaseUnused();
                                 });
  });
}

void Broker::ReleaseUnused() {
  Later later;
  absl::MutexLock lock(&mutex_);
  std::vector<QpRecord*> unused;
  for (const auto& [id, qp] : registry_.qps()) {
    if (IsUnused(*qp)) unused.push_back(qp.get());
  }
  for (QpRecord* qp : unused) ReleaseQp(*qp, later, nullptr);
  for (const auto& [id, xrcd] : registry_.xrcds()) ReleaseXrcdIfUnused(*xrcd, later);
}

void Broker::Restorer::Sort(std::vector<KeptObject> kept) {
  for (KeptObject& object : kept) {
    const keeper::v1::Record& record = object.record;
    if (auto xrcd = record.has_xrcd() ? XrcdOf(record.xrcd()) : nullptr) {
      const uint64_t id = xrcd->id.value();
      xrcds_[id] = {std::move(xrcd), std::move(object)};
    } else if (auto qp = record.has_qp() ? QpOf(record.qp()) : nullptr) {
      const uint64_t id = qp->id.value();
      qps_[id] = {std::move(qp), std::move(object)};
    } else if (auto lease = record.has_lease() ? LeaseOf(record.lease()) : nullptr) {
      const uint64_t id = lease->id.value();
      leases_[id] = {std::move(lease), std::move(object)};
    } else if (record.has_device()) {
      devices_.push_back(std::move(object));
    } else {
      Differ("a record that makes no sense", "dropped");
    }
  }
}

void Broker::Restorer::RestoreXrcd(std::unique_ptr<XrcdRecord> xrcd, KeptObject object) {
  absl::StatusOr<std::shared_ptr<KernelXrcd>> kernel = OpenXrcd(xrcd->key, object);
  if (!kernel.ok()) {
    return Differ(absl::StrCat("domain ", xrcd->key.name, " of uid ", xrcd->key.owner),
                  absl::StrCat("revoked: ", kernel.status().message()));
  }
  if (XrcdRecord* elder = registry_.FindXrcd(xrcd->key); elder != nullptr && !xrcd->destroyed) {
    registry_.MarkDestroyed(*elder);
  }
  xrcd->kernel = *std::move(kernel);
  xrcd->kept = std::move(object.entry);
  xrcd->charge = broker_.ledger_.ChargeRestored(xrcd->acl.owner, Quota::kXrcds);
  const XrcdRecord& adopted = registry_.AdoptXrcd(std::move(xrcd));
  const std::shared_ptr<DomainFile>& file = adopted.kernel->file;
  adopted.kept->Keep(RecordOf(adopted, *file), {{file, file->fd()}});
  ++report_.xrcds;
}

absl::StatusOr<std::shared_ptr<KernelXrcd>> Broker::Restorer::OpenXrcd(const XrcdKey& key,
                                                                       KeptObject& object) {
  absl::StatusOr<std::shared_ptr<verbs::Device>> device = broker_.FindXrcDevice(key.device);
  if (!device.ok()) return device.status();
  if (object.fds.size() != 1) return MakeError(v1::REASON_INTERNAL, "its file was not kept");
  absl::StatusOr<std::unique_ptr<DomainFile>> file =
      broker_.ports_.files->AdoptDomainFile(object.record.xrcd().file(), std::move(object.fds[0]));
  if (!file.ok()) return file.status();
  absl::StatusOr<std::unique_ptr<verbs::Xrcd>> xrcd =
      (*device)->OpenXrcd((*file)->fd(), verbs::OpenXrcdMode::kExisting);
  if (!xrcd.ok()) return xrcd.status();
  auto kernel = std::make_shared<KernelXrcd>();
  kernel->device = *std::move(device);
  kernel->file = *std::move(file);
  kernel->xrcd = *std::move(xrcd);
  return kernel;
}

bool Broker::Restorer::RestoreQp(std::unique_ptr<QpRecord> qp, std::shared_ptr<KeptEntry> entry,
                                 uint64_t fingerprint) {
  XrcdRecord* xrcd = registry_.FindXrcd(qp->xrcd);
  // The domain's loss was told; a number that is taken is a younger QP's.
  if (xrcd == nullptr || registry_.FindQp(*xrcd, qp->number) != nullptr) return false;
  absl::StatusOr<std::unique_ptr<verbs::TargetQp>> handle =
      xrcd->kernel->xrcd->OpenTargetQp(qp->number);
  if (!handle.ok()) {
    Differ(absl::StrCat("QP ", FormatQpNumber(qp->number)),
           absl::StrCat("dropped: ", handle.status().message()));
    return false;
  }
  if (registry_.FindQpByKey(*xrcd, qp->key) != nullptr) qp->destroyed = true;
  if (registry_.FindRequest(qp->request) != nullptr) qp->request = {};
  qp->charge = broker_.ledger_.ChargeRestored(xrcd->acl.owner, Quota::kQps);
  qp->kept = std::move(entry);
  QpRecord& adopted = registry_.AdoptQp(std::move(qp));
  if (!adopted.request.second.empty()) {
    registry_.AddRequest(adopted.request, fingerprint).qp = adopted.id;
  }
  auto kernel = std::make_shared<KernelQp>();
  kernel->xrcd = xrcd->kernel;
  kernel->qp = *std::move(handle);
  registry_.SetLive(adopted, std::move(kernel));
  ++report_.qps;
  return true;
}

// The QP's own record is lost, with its key and its life: it lives by its leases.
bool Broker::Restorer::RebuildQp(const LeaseRecord& lease, uint32_t number) {
  auto qp = std::make_unique<QpRecord>();
  qp->id = *lease.qp;
  qp->xrcd = lease.xrcd;
  qp->number = number;
  qp->creator = lease.uid;
  qp->created = lease.created;
  qp->kept = broker_.ports_.keeper->NewEntry();
  const keeper::v1::Record record = RecordOf(*qp, nullptr);
  std::shared_ptr<KeptEntry> kept = qp->kept;
  if (number == 0 || !RestoreQp(std::move(qp), kept, 0)) return false;
  kept->Keep(record, {});
  Differ(absl::StrCat("QP ", FormatQpNumber(number)), "rebuilt from a lease, without its key");
  return true;
}

bool Broker::Restorer::HasTarget(const LeaseRecord& lease, uint32_t number) {
  if (registry_.FindXrcd(lease.xrcd) == nullptr) return false;
  if (!lease.qp) return true;
  const QpRecord* qp = registry_.FindQp(*lease.qp);
  if (qp != nullptr) return qp->xrcd == lease.xrcd;
  return !qps_.contains(lease.qp->value()) && RebuildQp(lease, number);
}

void Broker::Restorer::RestoreLease(std::unique_ptr<LeaseRecord> lease, KeptObject object) {
  const std::string name = absl::StrCat("lease ", lease->id.value(), " of uid ", lease->uid);
  if (object.fds.size() != 1) return Differ(name, "dropped: its pipe was not kept");
  absl::StatusOr<std::unique_ptr<LeaseEnd>> end =
      broker_.ports_.leases->AdoptLease(lease->id, std::move(object.fds[0]));
  if (!end.ok()) return Differ(name, absl::StrCat("dropped: ", end.status().message()));
  if (!(*end)->HasHolder()) {
    ++report_.ended_leases;
    return;
  }
  const keeper::v1::Lease& record = object.record.lease();
  if (!HasTarget(*lease, record.qp_num()) || registry_.FindRequest(lease->request) != nullptr) {
    EventRecord revoked;
    revoked.kind = EventKind::kRevoked;
    (*end)->Send(revoked);
    ++report_.revoked_leases;
    return Differ(name, "revoked: what it was on is gone");
  }
  lease->end = *std::move(end);
  lease->kept = std::move(object.entry);
  lease->charge = broker_.ledger_.ChargeRestored(lease->uid, Quota::kLeases);
  registry_.AddRequest(lease->request, record.request().fingerprint()).lease = lease->id;
  const LeaseRecord& adopted = registry_.AddLease(std::move(lease));
  adopted.kept->Keep(object.record, {{adopted.end, adopted.end->fd()}});
  ++report_.leases;
}

void Broker::Restorer::Differ(absl::string_view object, absl::string_view action) {
  ++report_.differences;
  broker_.ports_.journal->Difference(object, action);
}

}  // namespace qpbroker::core
