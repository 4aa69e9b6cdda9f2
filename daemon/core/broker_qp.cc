// SPDX-License-Identifier: Apache-2.0
//
// Creating, opening, closing and destroying QPs.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/broker.h"
#include "daemon/core/broker_internal.h"

namespace qpbroker::core {

QpEndpoint EndpointOf(uint32_t qp_num, uint32_t psn, const verbs::PortInfo& port) {
  QpEndpoint endpoint;
  endpoint.qp_num = qp_num;
  endpoint.port = port.number;
  endpoint.lid = port.lid;
  if (!port.gids.empty()) endpoint.gid = port.gids[0];
  endpoint.mtu = port.active_mtu;
  endpoint.psn = psn;
  return endpoint;
}

absl::StatusOr<verbs::PortInfo> QueryPort(verbs::Device& device, uint8_t number) {
  absl::StatusOr<std::vector<verbs::PortInfo>> ports = device.QueryPorts();
  if (!ports.ok()) return ports.status();
  for (verbs::PortInfo& port : *ports) {
    if (port.number == number) return std::move(port);
  }
  return MakeError(v1::REASON_INVALID_FIELD,
                   absl::StrCat("port: ", device.info().name, " has no port ", number),
                   {{"field", "port"}, {"device", device.info().name}});
}

// ---- OpenQp: the warm path.

absl::StatusOr<OpenQpAnswer> Broker::OpenQp(const Caller& caller, const OpenQpCall& call) {
  Handover handover;
  OpenQpAnswer answer;
  {
    absl::MutexLock lock(&mutex_);
    absl::StatusOr<LeaseRecord*> lease = TryOpenQp(caller, call, handover);
    if (!lease.ok()) return lease.status();
    answer = {(*lease)->id, ViewOf(*registry_.FindQp(*(*lease)->qp))};
  }
  if (absl::Status status = HandOver(std::move(handover)); !status.ok()) return status;
  return answer;
}

absl::StatusOr<LeaseRecord*> Broker::TryOpenQp(const Caller& caller, const OpenQpCall& call,
                                               Handover& handover) {
  if (absl::Status status = CheckCanReceive(caller); !status.ok()) return status;
  absl::StatusOr<const RequestEntry*> replay = FindReplay(caller, call.request);
  if (!replay.ok()) return replay.status();
  if (*replay != nullptr) return GrantAgain(caller, *(*replay)->lease, handover);

  absl::StatusOr<XrcdRecord*> xrcd = FindXrcd(caller, call.xrcd, Access::kRead);
  if (!xrcd.ok()) return xrcd.status();
  QpRecord* qp = call.number ? registry_.FindQp(**xrcd, *call.number)
                             : registry_.FindQpByKey(**xrcd, *call.key);
  if (qp == nullptr || qp->destroyed || qp->phase != QpPhase::kLive) {
    return call.number
               ? MakeError(v1::REASON_QP_NOT_FOUND, "", {{"qp_num", FormatQpNumber(*call.number)}})
               : MakeError(v1::REASON_QP_NOT_FOUND, "", {{"key", *call.key}});
  }
  return Grant(caller, **xrcd, qp, call.request, false, handover);
}

// ---- CreateQp.

void Broker::CreateQp(const Caller& caller, CreateQpCall call, Done<CreateQpAnswer> done) {
  absl::Status refused;
  {
    Later later;
    absl::MutexLock lock(&mutex_);
    refused = TryCreateQp(caller, call, done, later);
  }
  if (!refused.ok()) std::move(done)(refused);
}

absl::Status Broker::TryCreateQp(const Caller& caller, CreateQpCall& call,
                                 Done<CreateQpAnswer>& done, Later& later) {
  if (absl::Status status = CheckCanReceive(caller); !status.ok()) return status;
  absl::StatusOr<const RequestEntry*> replay = FindReplay(caller, call.request);
  if (!replay.ok()) return replay.status();
  if (*replay != nullptr) {
    const RequestEntry& entry = **replay;
    QpId id = entry.lease ? *registry_.FindLease(*entry.lease)->qp : *entry.qp;
    PostQpTask(&Broker::ReuseQpTask, *registry_.FindQp(id), caller, call, done, later);
    return absl::OkStatus();
  }
  absl::StatusOr<XrcdRecord*> found = FindXrcd(caller, call.xrcd, Access::kWrite);
  if (!found.ok()) return found.status();
  XrcdRecord& xrcd = **found;
  QpRecord* qp = call.key.empty() ? nullptr : registry_.FindQpByKey(xrcd, call.key);
  if (qp != nullptr && call.exclusive) {
    return MakeError(v1::REASON_QP_EXISTS, "", {{"key", call.key}});
  }
  if (qp != nullptr && qp->phase == QpPhase::kCreating) {
    qp->waiters.push_back([this, caller, call = std::move(call), done = std::move(done)]() mutable {
      CreateQp(caller, std::move(call), std::move(done));
    });
    return absl::OkStatus();
  }
  if (qp != nullptr) {
    PostQpTask(&Broker::ReuseQpTask, *qp, caller, call, done, later);
    return absl::OkStatus();
  }
  absl::StatusOr<Charge> charge = ledger_.ChargeFor(xrcd.acl.owner, Quota::kQps);
  if (!charge.ok()) return charge.status();
  QpRecord& created = registry_.AddQp(xrcd, call.key, call.life, caller.identity.uid,
                                      ports_.environment->Now(), *std::move(charge));
  created.psn = static_cast<uint32_t>(ports_.environment->Random() & 0xffffff);
  created.port = call.port;
  registry_.AddRequest(RequestKeyOf(caller, call.request), call.request.fingerprint);
  PostQpTask(&Broker::CreateQpTask, created, caller, call, done, later);
  return absl::OkStatus();
}

void Broker::PostQpTask(QpTask task, const QpRecord& qp, const Caller& caller, CreateQpCall& call,
                        Done<CreateQpAnswer>& done, Later& later) {
  XrcdRecord& xrcd = *registry_.FindXrcd(qp.xrcd);
  later.Run([this, task, device = DeviceNameOf(xrcd), id = qp.id, kernel = xrcd.kernel, caller,
             call = std::move(call), done = std::move(done)]() mutable {
    ports_.executor->Post(device, StrandOf(id),
                          [this, task, id, kernel = std::move(kernel), caller,
                           call = std::move(call), done = std::move(done)]() mutable {
                            (this->*task)(caller, std::move(call), id, std::move(kernel),
                                          std::move(done));
                          });
  });
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): a QpTask.
void Broker::CreateQpTask(const Caller& caller, CreateQpCall call, QpId id,
                          std::shared_ptr<KernelXrcd> xrcd, Done<CreateQpAnswer> done) {
  auto kernel = std::make_shared<KernelQp>();
  kernel->xrcd = xrcd;
  absl::StatusOr<verbs::PortInfo> port = QueryPort(*xrcd->device, call.port);
  absl::Status status = port.status();
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<verbs::TargetQp>> qp = xrcd->xrcd->CreateTargetQp();
    status = qp.status();
    if (qp.ok()) kernel->qp = *std::move(qp);
  }
  if (status.ok()) KeepQp(id, RequestKeyOf(caller, call.request), kernel->qp->number());
  Handover handover;
  absl::StatusOr<CreateQpAnswer> answer;
  {
    Later later;
    absl::MutexLock lock(&mutex_);
    QpRecord& qp = *registry_.FindQp(id);
    later.RunAll(std::exchange(qp.waiters, {}));
    if (status.ok()) {
      registry_.SetLive(qp, std::move(kernel));
      status = CheckStillServed(*xrcd->device);
    }
    answer = status.ok() ? FinishCreateQp(caller, call, qp, nullptr, true, *port, handover)
                         : absl::StatusOr<CreateQpAnswer>(status);
    if (!answer.ok()) {
      registry_.RemoveRequest(RequestKeyOf(caller, call.request));
      qp.request = {};
      AbandonQp(qp, later);
    }
  }
  xrcd.reset();
  CompleteCreateQp(std::move(handover), std::move(answer), std::move(done));
}

void Broker::KeepQp(QpId id, const RequestKey& request, uint32_t number) {
  std::shared_ptr<KeptEntry> kept = ports_.keeper->NewEntry();
  keeper::v1::Record record;
  {
    absl::MutexLock lock(&mutex_);
    QpRecord& qp = *registry_.FindQp(id);
    qp.kept = kept;
    // A QP that lives by its leases has its request in its first lease.
    if (qp.life == QpLife::kDomain) qp.request = request;
    qp.number = number;
    record = RecordOf(qp, registry_.FindRequest(qp.request));
  }
  kept->Keep(record, {});
}

void Broker::ReuseQpTask(const Caller& caller, CreateQpCall call, QpId id,
                         std::shared_ptr<KernelXrcd> xrcd, Done<CreateQpAnswer> done) {
  absl::StatusOr<verbs::PortInfo> port = QueryPort(*xrcd->device, call.port);
  xrcd.reset();
  Handover handover;
  absl::StatusOr<CreateQpAnswer> answer;
  if (!port.ok()) {
    answer = port.status();
  } else {
    absl::ReleasableMutexLock lock(&mutex_);
    QpRecord* qp = registry_.FindQp(id);
    if (qp == nullptr || qp->phase != QpPhase::kLive || stopping_) {
      // It went while we asked for the port: begin anew.
      lock.Release();
      return CreateQp(caller, std::move(call), std::move(done));
    }
    // Asked anew: another call with the same request_id may have been answered meanwhile.
    absl::StatusOr<const RequestEntry*> replay = FindReplay(caller, call.request);
    answer = replay.ok() ? FinishCreateQp(caller, call, *qp, *replay, false, *port, handover)
                         : absl::StatusOr<CreateQpAnswer>(replay.status());
  }
  CompleteCreateQp(std::move(handover), std::move(answer), std::move(done));
}

absl::StatusOr<CreateQpAnswer> Broker::FinishCreateQp(const Caller& caller,
                                                      const CreateQpCall& call, QpRecord& qp,
                                                      const RequestEntry* replay, bool created,
                                                      const verbs::PortInfo& port,
                                                      Handover& handover) {
  CreateQpAnswer answer;
  answer.created = created;
  if (qp.life == QpLife::kHolders) {
    XrcdRecord& xrcd = *registry_.FindXrcd(qp.xrcd);
    absl::StatusOr<LeaseRecord*> lease =
        replay != nullptr ? GrantAgain(caller, *replay->lease, handover)
                          : Grant(caller, xrcd, &qp, call.request, created, handover);
    if (!lease.ok()) return lease.status();
    answer.lease = (*lease)->id;
    answer.created = (*lease)->created_target;
  } else if (created) {
    registry_.FindRequest(qp.request)->qp = qp.id;
  } else {
    answer.created = qp.request == RequestKeyOf(caller, call.request);
  }
  answer.qp = ViewOf(qp);
  answer.endpoint = EndpointOf(qp.number, qp.psn, port);
  return answer;
}

void Broker::CompleteCreateQp(Handover handover, absl::StatusOr<CreateQpAnswer> answer,
                              Done<CreateQpAnswer> done) {
  if (answer.ok()) {
    absl::Status delivered = HandOver(std::move(handover));
    if (!delivered.ok()) answer = delivered;
  }
  std::move(done)(std::move(answer));
}

void Broker::AbandonQp(QpRecord& qp, Later& later) {
  if (qp.phase == QpPhase::kLive) return ReleaseQp(qp, later, nullptr);
  XrcdRecord& xrcd = *registry_.FindXrcd(qp.xrcd);
  later.Drop(registry_.RemoveQp(qp));
  ReleaseXrcdIfUnused(xrcd, later);
}

// ---- Closing and destroying.

absl::StatusOr<uint32_t> Broker::CloseQp(const Caller& caller, const LeaseName& name) {
  Later later;
  absl::MutexLock lock(&mutex_);
  absl::StatusOr<LeaseRecord*> lease = FindOwnLease(caller, name, true);
  if (!lease.ok()) return lease.status();
  const QpRecord& qp = *registry_.FindQp(*(*lease)->qp);
  EndLease(**lease, later);
  return static_cast<uint32_t>(qp.leases.size());
}

void Broker::DestroyQp(const Caller& caller, const QpName& name, Done<DestroyQpAnswer> done) {
  absl::StatusOr<DestroyQpAnswer> answer;
  {
    Later later;
    absl::MutexLock lock(&mutex_);
    absl::StatusOr<QpRecord*> found = FindQp(caller, name, Access::kWrite);
    if (found.ok()) {
      QpRecord& qp = **found;
      if (!qp.destroyed) {
        registry_.MarkDestroyed(qp);
        EventRecord record;
        record.kind = EventKind::kQpDestroyed;
        record.qp_num = qp.number;
        SendTo(qp.leases, record);
      }
      if (qp.leases.empty()) return ReleaseQp(qp, later, std::move(done));
      later.Run([kept = qp.kept, record = RecordOf(qp, registry_.FindRequest(qp.request))] {
        kept->Keep(record, {});
      });
      answer = DestroyQpAnswer{static_cast<uint32_t>(qp.leases.size()), false};
    } else {
      answer = found.status();
    }
  }
  std::move(done)(std::move(answer));
}

}  // namespace qpbroker::core
