// SPDX-License-Identifier: Apache-2.0
//
// What all calls share: finding, granting, letting go; devices and sessions. The calls on domains
// are in broker_xrcd.cc, those on QPs in broker_qp.cc and broker_connect.cc, the lists in
// broker_lists.cc.
#include "daemon/core/broker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/broker_internal.h"

namespace qpbroker::core {

Broker::Broker(const BrokerOptions& options, const BrokerPorts& ports)
    : options_(options), ports_(ports), ledger_(options.quotas) {
  registry_.BeginLife(options.life);
}

Broker::~Broker() = default;

// ---- Devices.

void Broker::AddDevice(std::shared_ptr<verbs::Device> device) {
  std::string name = device->info().name;
  std::shared_ptr<KeptEntry> kept = ports_.keeper->NewEntry();
  keeper::v1::Record record;
  record.mutable_device()->set_name(name);
  kept->Keep(record, {{device, device->context_fd()}});
  absl::MutexLock lock(&mutex_);
  devices_.insert_or_assign(std::move(name), PresentDevice{std::move(device), std::move(kept)});
}

void Broker::RemoveDevice(absl::string_view name) {
  Later later;
  absl::MutexLock lock(&mutex_);
  auto found = devices_.find(name);
  if (found == devices_.end()) return;
  auto [device, kept] = std::move(found->second);
  devices_.erase(found);
  std::vector<XrcdRecord*> domains;
  for (const auto& [id, xrcd] : registry_.xrcds()) {
    if (xrcd->kernel != nullptr && xrcd->kernel->device == device) domains.push_back(xrcd.get());
  }
  for (XrcdRecord* xrcd : domains) Revoke(*xrcd, EventKind::kDeviceGone, later);
  // Closing the device may take long.
  later.Run([this, device = std::move(device), kept = std::move(kept)]() mutable {
    kept.reset();
    const std::string id = device->info().name;
    ports_.executor->Post(id, kDeviceStrand, [device = std::move(device)] {});
  });
}

std::vector<std::string> Broker::DeviceNames() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> names;
  for (const auto& [name, present] : devices_) names.push_back(name);
  return names;
}

void Broker::HandleDeviceEvent(absl::string_view device, const verbs::AsyncEvent& event) {
  if (event.kind == verbs::AsyncEventKind::kDeviceFatal) return RemoveDevice(device);
  EventRecord record;
  record.detail = event.type;
  switch (event.kind) {
    case verbs::AsyncEventKind::kQpFatal:
    case verbs::AsyncEventKind::kQpOther:
      record.kind =
          event.kind == verbs::AsyncEventKind::kQpFatal ? EventKind::kQpError : EventKind::kQpEvent;
      record.qp_num = event.qp_num;
      break;
    case verbs::AsyncEventKind::kPortActive:
    case verbs::AsyncEventKind::kPortDown:
      record.kind = event.kind == verbs::AsyncEventKind::kPortDown ? EventKind::kPortDown
                                                                   : EventKind::kPortActive;
      record.port = event.port;
      break;
    default:
      return;
  }
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, xrcd] : registry_.xrcds()) {
    if (DeviceNameOf(*xrcd) != device) continue;
    if (record.qp_num == 0) {
      SendToDomain(*xrcd, record);
    } else if (QpRecord* qp = registry_.FindQp(*xrcd, record.qp_num)) {
      SendTo(qp->leases, record);
      SendTo(xrcd->leases, record);
    }
  }
}

void Broker::SendTo(const absl::btree_set<LeaseId>& leases, const EventRecord& record) {
  for (LeaseId id : leases) registry_.FindLease(id)->end->Send(record);
}

void Broker::SendToDomain(const XrcdRecord& xrcd, const EventRecord& record) {
  SendTo(xrcd.leases, record);
  for (QpId id : xrcd.qps) SendTo(registry_.FindQp(id)->leases, record);
}

// ---- Connections and sessions.

absl::StatusOr<Charge> Broker::ChargeConnection(uid_t uid) {
  return ledger_.ChargeFor(uid, Quota::kConnections);
}

absl::StatusOr<SessionId> Broker::BeginSession(const PeerCredentials& identity,
                                               absl::string_view nonce) {
  absl::StatusOr<Charge> charge = ledger_.ChargeFor(identity.uid, Quota::kSessions);
  if (!charge.ok()) return charge.status();
  const absl::Time now = ports_.environment->Now();
  absl::MutexLock lock(&mutex_);
  if (stopping_) return MakeError(v1::REASON_SHUTTING_DOWN);
  SessionRecord* session = sessions_.Add(identity, nonce, now, *std::move(charge));
  if (session == nullptr) return MakeError(v1::REASON_INTERNAL, "a nonce came twice");
  return session->id;
}

void Broker::EndSession(SessionId session) {
  absl::MutexLock lock(&mutex_);
  sessions_.Remove(session);
}

bool Broker::IsAttached(SessionId session) const {
  absl::MutexLock lock(&mutex_);
  auto found = sessions_.sessions().find(session);
  return found != sessions_.sessions().end() && found->second.nonce.empty();
}

absl::StatusOr<SessionId> Broker::Attach(const Caller& caller, absl::string_view nonce) {
  if (caller.session) return MakeError(v1::REASON_ALREADY_ATTACHED);
  absl::MutexLock lock(&mutex_);
  std::optional<SessionId> session = sessions_.UseNonce(nonce, caller.identity.uid);
  if (!session) return MakeError(v1::REASON_BAD_NONCE);
  return *session;
}

// ---- Looking things up.

absl::Status Broker::CheckCanReceive(const Caller& caller) const {
  if (stopping_) return MakeError(v1::REASON_SHUTTING_DOWN);
  if (!caller.session) return MakeError(v1::REASON_NOT_ATTACHED);
  if (!sessions_.Contains(*caller.session)) return MakeError(v1::REASON_SESSION_GONE);
  return absl::OkStatus();
}

absl::StatusOr<XrcdRecord*> Broker::FindXrcd(const Caller& caller, const XrcdName& name,
                                             Access access) {
  if (stopping_) return MakeError(v1::REASON_SHUTTING_DOWN);
  if (name.generation && *name.generation != options_.generation) {
    return MakeError(v1::REASON_STALE_GENERATION);
  }
  XrcdRecord* xrcd = registry_.FindXrcd(name.key);
  const bool owner = caller.identity.uid == name.key.owner;
  if (xrcd == nullptr) {
    // Only in one's own name space does one learn that something is not there.
    return owner ? MakeError(v1::REASON_XRCD_NOT_FOUND) : Denied();
  }
  if (!Allows(xrcd->acl, caller.identity, access)) return Denied();
  if (xrcd->kernel == nullptr) return MakeError(v1::REASON_XRCD_NOT_FOUND);
  return xrcd;
}

absl::StatusOr<QpRecord*> Broker::FindQp(const Caller& caller, const QpName& name, Access access) {
  absl::StatusOr<XrcdRecord*> xrcd = FindXrcd(caller, name.xrcd, access);
  if (!xrcd.ok()) return xrcd.status();
  QpRecord* qp = registry_.FindQp(**xrcd, name.number);
  if (qp == nullptr) {
    return MakeError(v1::REASON_QP_NOT_FOUND, "", {{"qp_num", FormatQpNumber(name.number)}});
  }
  return qp;
}

absl::StatusOr<std::shared_ptr<verbs::Device>> Broker::FindXrcDevice(
    const std::string& name) const {
  auto found = devices_.find(name);
  if (found == devices_.end()) {
    return MakeError(v1::REASON_DEVICE_NOT_FOUND, absl::StrCat("no device ", name),
                     {{"device", name}});
  }
  const verbs::DeviceInfo& info = found->second.device->info();
  if (!info.xrc_supported) {
    return MakeError(v1::REASON_XRC_NOT_SUPPORTED,
                     absl::StrCat(name, ": ", info.xrc_unsupported_reason), {{"device", name}});
  }
  return found->second.device;
}

bool Broker::IsPresent(const verbs::Device& device) const {
  auto found = devices_.find(device.info().name);
  return found != devices_.end() && found->second.device.get() == &device;
}

absl::Status Broker::CheckStillServed(const verbs::Device& device) const {
  if (stopping_) return MakeError(v1::REASON_SHUTTING_DOWN);
  return IsPresent(device) ? absl::OkStatus() : MakeError(v1::REASON_DEVICE_GONE);
}

absl::StatusOr<LeaseRecord*> Broker::FindOwnLease(const Caller& caller, const LeaseName& name,
                                                  bool on_qp) {
  if (name.generation != options_.generation) return MakeError(v1::REASON_STALE_GENERATION);
  LeaseRecord* lease = registry_.FindLease(name.id);
  if (lease == nullptr || lease->uid != caller.identity.uid || lease->qp.has_value() != on_qp) {
    return MakeError(v1::REASON_LEASE_NOT_FOUND);
  }
  return lease;
}

// ---- Granting.

absl::StatusOr<const RequestEntry*> Broker::FindReplay(const Caller& caller,
                                                       const RequestTag& tag) {
  const RequestEntry* entry = registry_.FindRequest(RequestKeyOf(caller, tag));
  if (entry == nullptr) return nullptr;
  if (entry->fingerprint != tag.fingerprint) return MakeError(v1::REASON_REQUEST_ID_REUSED);
  if (!entry->lease && !entry->qp) return MakeError(v1::REASON_REQUEST_IN_PROGRESS);
  return entry;
}

// Charge, then create, then publish: whatever fails on the way undoes what was before it.
absl::StatusOr<LeaseRecord*> Broker::Grant(const Caller& caller, XrcdRecord& xrcd, QpRecord* qp,
                                           const RequestTag& tag, bool created,
                                           Handover& handover) {
  absl::StatusOr<Charge> charge = ledger_.ChargeFor(caller.identity.uid, Quota::kLeases);
  if (!charge.ok()) return charge.status();
  if (qp == nullptr) {
    absl::StatusOr<UniqueFd> file = xrcd.kernel->file->ReopenReadOnly();
    if (!file.ok()) return file.status();
    handover.xrcd_file = *std::move(file);
  }
  const LeaseId id = registry_.NextLeaseId();
  absl::StatusOr<NewLease> pipe = ports_.leases->CreateLease(id);
  if (!pipe.ok()) return pipe.status();

  auto lease = std::make_unique<LeaseRecord>();
  lease->id = id;
  lease->xrcd = xrcd.id;
  if (qp != nullptr) lease->qp = qp->id;
  lease->uid = caller.identity.uid;
  lease->pid = caller.identity.pid;
  lease->created = ports_.environment->Now();
  lease->charge = *std::move(charge);
  lease->end = std::move(pipe->end);
  lease->request = RequestKeyOf(caller, tag);
  lease->created_target = created;
  RequestEntry* entry = registry_.FindRequest(lease->request);
  if (entry == nullptr) entry = &registry_.AddRequest(lease->request, tag.fingerprint);
  entry->lease = id;
  lease->kept = ports_.keeper->NewEntry();

  handover.session = *caller.session;
  handover.holder_end = std::move(pipe->holder_end);
  FillHandover(*lease, qp, tag.fingerprint, handover);
  return &registry_.AddLease(std::move(lease));
}

absl::StatusOr<LeaseRecord*> Broker::GrantAgain(const Caller& caller, LeaseId id,
                                                Handover& handover) {
  LeaseRecord* lease = registry_.FindLease(id);
  absl::StatusOr<UniqueFd> holder_end = lease->end->ReopenHolderEnd();
  if (!holder_end.ok()) return holder_end.status();
  if (!lease->qp) {
    absl::StatusOr<UniqueFd> file = registry_.FindXrcd(lease->xrcd)->kernel->file->ReopenReadOnly();
    if (!file.ok()) return file.status();
    handover.xrcd_file = *std::move(file);
  }
  handover.session = *caller.session;
  handover.holder_end = *std::move(holder_end);
  // The keeper is told once more: the first grant may still be on its way there.
  FillHandover(*lease, lease->qp ? registry_.FindQp(*lease->qp) : nullptr,
               registry_.FindRequest(lease->request)->fingerprint, handover);
  return lease;
}

void Broker::FillHandover(const LeaseRecord& lease, const QpRecord* qp, uint64_t fingerprint,
                          Handover& handover) {
  handover.lease = lease.id;
  handover.request_id = lease.request.second;
  handover.record = RecordOf(lease, qp, fingerprint);
  handover.end = lease.end;
  handover.kept = lease.kept;
}

absl::Status Broker::HandOver(Handover handover) {
  if (handover.lease == LeaseId()) return absl::OkStatus();
  // First the keeper, then the client: a reference that anybody has is one that survives.
  handover.kept->Keep(handover.record, {{handover.end, handover.end->fd()}});
  v1::FdDelivery delivery;
  delivery.set_grant_id(handover.lease.value());
  delivery.set_request_id(handover.request_id);
  delivery.add_fds(v1::FD_KIND_LEASE);
  if (handover.xrcd_file) delivery.add_fds(v1::FD_KIND_XRCD);
  const int fds[] = {handover.holder_end.get(), handover.xrcd_file.get()};
  absl::Status delivered =
      ports_.delivery->Deliver(handover.session, delivery,
                               absl::MakeConstSpan(fds, static_cast<size_t>(delivery.fds_size())));
  if (!delivered.ok()) {
    // With our copy closed the pipe itself tells whether anybody has the lease.
    handover.holder_end.reset();
    LeaseHolderGone(handover.lease);
  }
  return delivered;
}

// ---- Letting go.

void Broker::LeaseHolderGone(LeaseId id) {
  Later later;
  absl::MutexLock lock(&mutex_);
  LeaseRecord* lease = registry_.FindLease(id);
  // It may have been delivered once more between the event and now.
  if (lease == nullptr || lease->end->HasHolder()) return;
  EndLease(*lease, later);
}

void Broker::EndLease(LeaseRecord& lease, Later& later) {
  XrcdRecord& xrcd = *registry_.FindXrcd(lease.xrcd);
  QpRecord* qp = lease.qp ? registry_.FindQp(*lease.qp) : nullptr;
  later.Drop(registry_.RemoveLease(lease));
  if (qp != nullptr && IsUnused(*qp)) ReleaseQp(*qp, later, nullptr);
  ReleaseXrcdIfUnused(xrcd, later);
}

bool Broker::IsUnused(const QpRecord& qp) {
  return qp.phase == QpPhase::kLive && qp.leases.empty() &&
         (qp.life == QpLife::kHolders || qp.destroyed || !registry_.FindXrcd(qp.xrcd)->KeepsQps());
}

void Broker::ReleaseQp(QpRecord& qp, Later& later, Done<DestroyQpAnswer> done) {
  registry_.SetReleasing(qp);
  later.Run([this, device = DeviceNameOf(*registry_.FindXrcd(qp.xrcd)), id = qp.id,
             number = qp.number, kernel = qp.kernel, done = std::move(done)]() mutable {
    ports_.executor->Post(
        device, StrandOf(id),
        [this, id, number, kernel = std::move(kernel), done = std::move(done)]() mutable {
          const bool lingering = DestroyInKernel(*kernel, number);
          kernel.reset();
          FinishReleaseQp(id, lingering);
          if (done) std::move(done)(DestroyQpAnswer{0, lingering});
        });
  });
}

bool Broker::IsReleased(const absl::Status& released, const verbs::Device& device,
                        absl::string_view object) {
  if (released.ok()) return true;
  {
    // What was on a device that was removed goes with the closing of its context.
    absl::MutexLock lock(&mutex_);
    if (!IsPresent(device)) return true;
  }
  ports_.journal->ReleaseFailed(object, released);
  return false;
}

bool Broker::DestroyInKernel(KernelQp& qp, uint32_t number) {
  const std::string object = absl::StrCat("QP ", FormatQpNumber(number));
  const verbs::Device& device = *qp.xrcd->device;
  if (qp.qp != nullptr) {
    if (!IsReleased(qp.qp->Destroy(), device, object)) return true;
    qp.qp.reset();
  }
  // Our handle is gone. If the number still opens, somebody keeps a handle of their own.
  absl::StatusOr<std::unique_ptr<verbs::TargetQp>> probe = qp.xrcd->xrcd->OpenTargetQp(number);
  if (!probe.ok()) return false;
  // Should this fail, the probe's handle is now ours to give back.
  if (!IsReleased((*probe)->Destroy(), device, object)) qp.qp = *std::move(probe);
  return true;
}

void Broker::FinishReleaseQp(QpId id, bool lingering) {
  Later later;
  absl::MutexLock lock(&mutex_);
  QpRecord* qp = registry_.FindQp(id);
  if (qp == nullptr) return;
  if (lingering) {
    qp->phase = QpPhase::kLingering;
    return;
  }
  XrcdRecord& xrcd = *registry_.FindXrcd(qp->xrcd);
  later.Drop(registry_.RemoveQp(*qp));
  ReleaseXrcdIfUnused(xrcd, later);
}

void Broker::ReleaseXrcdIfUnused(XrcdRecord& xrcd, Later& later) {
  if (!xrcd.KeepsQps()) {
    std::vector<QpRecord*> unused;
    for (QpId id : xrcd.qps) {
      QpRecord* qp = registry_.FindQp(id);
      if (IsUnused(*qp)) unused.push_back(qp);
    }
    for (QpRecord* qp : unused) ReleaseQp(*qp, later, nullptr);
  }
  if (xrcd.KeepsQps() || !xrcd.qps.empty() || xrcd.kernel == nullptr || xrcd.releasing) return;
  xrcd.releasing = true;
  registry_.MarkDestroyed(xrcd);
  later.Run([this, id = xrcd.id, device = DeviceNameOf(xrcd), kernel = xrcd.kernel]() mutable {
    ports_.executor->Post(device, StrandOf(id), [this, id, kernel = std::move(kernel)]() mutable {
      const bool gone = IsReleased(kernel->xrcd->Close(), *kernel->device, "an XRC domain");
      kernel.reset();
      std::unique_ptr<XrcdRecord> record;  // Drops file and device outside the lock.
      absl::MutexLock lock(&mutex_);
      XrcdRecord* found = registry_.FindXrcd(id);
      if (gone) {
        record = registry_.RemoveXrcd(*found);
      } else {
        found->releasing = false;
      }
    });
  });
}

void Broker::ProbeLingering() {
  Later later;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, qp] : registry_.qps()) {
    if (qp->phase == QpPhase::kLingering) ReleaseQp(*qp, later, nullptr);
  }
  for (const auto& [id, xrcd] : registry_.xrcds()) {
    if (xrcd->destroyed) ReleaseXrcdIfUnused(*xrcd, later);
  }
}

void Broker::Revoke(XrcdRecord& xrcd, EventKind event, Later& later) {
  EventRecord record;
  record.kind = event;
  SendToDomain(xrcd, record);
  registry_.MarkDestroyed(xrcd);
  std::vector<LeaseId> leases(xrcd.leases.begin(), xrcd.leases.end());
  for (QpId id : xrcd.qps) {
    const auto& holders = registry_.FindQp(id)->leases;
    leases.insert(leases.end(), holders.begin(), holders.end());
  }
  for (LeaseId id : leases) EndLease(*registry_.FindLease(id), later);
  ReleaseXrcdIfUnused(xrcd, later);
}

void Broker::Shutdown() {
  Later later;
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  std::vector<XrcdRecord*> domains;
  for (const auto& [id, xrcd] : registry_.xrcds()) domains.push_back(xrcd.get());
  for (XrcdRecord* xrcd : domains) Revoke(*xrcd, EventKind::kRevoked, later);
}

}  // namespace qpbroker::core
