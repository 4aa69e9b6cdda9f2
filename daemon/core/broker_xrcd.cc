// SPDX-License-Identifier: Apache-2.0
//
// The calls on domains.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/broker.h"
#include "daemon/core/broker_internal.h"

namespace qpbroker::core {
namespace {

DomainAcl AclOf(const Caller& caller, const OpenXrcdCall& call) {
  DomainAcl acl{call.key.owner, call.gid.value_or(caller.identity.gid), call.mode, call.members};
  std::sort(acl.members.begin(), acl.members.end());
  return acl;
}

}  // namespace

void Broker::OpenXrcd(const Caller& caller, OpenXrcdCall call, Done<OpenXrcdAnswer> done) {
  Handover handover;
  absl::StatusOr<OpenXrcdAnswer> answer;
  {
    Later later;
    absl::MutexLock lock(&mutex_);
    absl::StatusOr<LeaseRecord*> lease = TryOpenXrcd(caller, call, done, handover, later);
    if (lease.ok() && *lease == nullptr) return;  // `done` was taken along.
    answer = lease.ok() ? AnswerOf(**lease) : absl::StatusOr<OpenXrcdAnswer>(lease.status());
  }
  if (answer.ok()) {
    absl::Status delivered = HandOver(std::move(handover));
    if (!delivered.ok()) answer = delivered;
  }
  std::move(done)(std::move(answer));
}

OpenXrcdAnswer Broker::AnswerOf(const LeaseRecord& lease) {
  return {lease.id, ViewOf(*registry_.FindXrcd(lease.xrcd)), lease.created_target};
}

absl::StatusOr<LeaseRecord*> Broker::TryOpenXrcd(const Caller& caller, OpenXrcdCall& call,
                                                 Done<OpenXrcdAnswer>& done, Handover& handover,
                                                 Later& later) {
  if (absl::Status status = CheckCanReceive(caller); !status.ok()) return status;
  absl::StatusOr<const RequestEntry*> replay = FindReplay(caller, call.request);
  if (!replay.ok()) return replay.status();
  if (*replay != nullptr) return GrantAgain(caller, *(*replay)->lease, handover);

  XrcdRecord* xrcd = registry_.FindXrcd(call.key);
  if (xrcd == nullptr) return StartCreateXrcd(caller, call, done, later);
  if (!Allows(xrcd->acl, caller.identity, Access::kRead)) return Denied();
  if (call.create && call.exclusive) return MakeError(v1::REASON_XRCD_EXISTS);
  if (xrcd->kernel == nullptr) {
    xrcd->waiters.push_back(
        [this, caller, call = std::move(call), done = std::move(done)]() mutable {
          OpenXrcd(caller, std::move(call), std::move(done));
        });
    return nullptr;
  }
  return Grant(caller, *xrcd, nullptr, call.request, false, handover);
}

absl::StatusOr<LeaseRecord*> Broker::StartCreateXrcd(const Caller& caller, OpenXrcdCall& call,
                                                     Done<OpenXrcdAnswer>& done, Later& later) {
  if (caller.identity.uid != call.key.owner) return Denied();
  absl::StatusOr<std::shared_ptr<verbs::Device>> device = FindXrcDevice(call.key.device);
  if (!device.ok()) return device.status();
  if (!call.create) return MakeError(v1::REASON_XRCD_NOT_FOUND);
  DomainAcl acl = AclOf(caller, call);
  if (!InGroup(caller.identity, acl.group)) {
    return MakeError(v1::REASON_PERMISSION_DENIED, absl::StrCat("gid: you are not in ", acl.group),
                     {{"field", "gid"}});
  }
  absl::StatusOr<Charge> charge = ledger_.ChargeFor(call.key.owner, Quota::kXrcds);
  if (!charge.ok()) return charge.status();
  const XrcdRecord& xrcd = registry_.AddXrcd(call.key, std::move(acl), call.life,
                                             ports_.environment->Now(), *std::move(charge));
  registry_.AddRequest(RequestKeyOf(caller, call.request), call.request.fingerprint);
  later.Run([this, caller, call = std::move(call), id = xrcd.id, device = *std::move(device),
             done = std::move(done)]() mutable {
    std::string name = device->info().name;
    ports_.executor->Post(name, StrandOf(id),
                          [this, caller, call = std::move(call), id, device = std::move(device),
                           done = std::move(done)]() mutable {
                            CreateXrcdTask(caller, call, id, device, std::move(done));
                          });
  });
  return nullptr;
}

void Broker::CreateXrcdTask(const Caller& caller, const OpenXrcdCall& call, XrcdId id,
                            const std::shared_ptr<verbs::Device>& device,
                            Done<OpenXrcdAnswer> done) {
  absl::StatusOr<std::shared_ptr<KernelXrcd>> kernel = OpenInKernel(device);
  if (kernel.ok()) KeepXrcd(id, **kernel);
  Handover handover;
  absl::StatusOr<OpenXrcdAnswer> answer;
  {
    Later later;
    absl::MutexLock lock(&mutex_);
    XrcdRecord& xrcd = *registry_.FindXrcd(id);
    later.RunAll(std::exchange(xrcd.waiters, {}));
    absl::Status status = kernel.status();
    if (kernel.ok()) {
      xrcd.kernel = *std::move(kernel);
      status = CheckStillServed(*device);
    }
    absl::StatusOr<LeaseRecord*> lease =
        status.ok() ? Grant(caller, xrcd, nullptr, call.request, true, handover) : status;
    if (lease.ok()) {
      answer = AnswerOf(**lease);
    } else {
      answer = lease.status();
      registry_.RemoveRequest(RequestKeyOf(caller, call.request));
      AbandonXrcd(xrcd, later);
    }
  }
  if (answer.ok()) {
    absl::Status delivered = HandOver(std::move(handover));
    if (!delivered.ok()) answer = delivered;
  }
  std::move(done)(std::move(answer));
}

absl::StatusOr<std::shared_ptr<KernelXrcd>> Broker::OpenInKernel(
    const std::shared_ptr<verbs::Device>& device) {
  auto kernel = std::make_shared<KernelXrcd>();
  kernel->device = device;
  absl::StatusOr<std::unique_ptr<DomainFile>> file = ports_.files->CreateDomainFile();
  if (!file.ok()) return file.status();
  kernel->file = *std::move(file);
  absl::StatusOr<std::unique_ptr<verbs::Xrcd>> xrcd =
      device->OpenXrcd(kernel->file->fd(), verbs::OpenXrcdMode::kCreateExclusive);
  if (!xrcd.ok()) return xrcd.status();
  kernel->xrcd = *std::move(xrcd);
  return kernel;
}

void Broker::KeepXrcd(XrcdId id, const KernelXrcd& kernel) {
  keeper::v1::Record record;
  std::shared_ptr<KeptEntry> kept = ports_.keeper->NewEntry();
  {
    absl::MutexLock lock(&mutex_);
    XrcdRecord& xrcd = *registry_.FindXrcd(id);
    record = RecordOf(xrcd, *kernel.file);
    xrcd.kept = kept;
  }
  kept->Keep(record, {{kernel.file, kernel.file->fd()}});
}

// A persistent domain goes too: whoever asked for it was told that there is none.
void Broker::AbandonXrcd(XrcdRecord& xrcd, Later& later) {
  registry_.MarkDestroyed(xrcd);
  if (xrcd.kernel == nullptr) {
    later.Drop(registry_.RemoveXrcd(xrcd));
  } else {
    ReleaseXrcdIfUnused(xrcd, later);
  }
}

absl::StatusOr<uint32_t> Broker::CloseXrcd(const Caller& caller, const LeaseName& name) {
  Later later;
  absl::MutexLock lock(&mutex_);
  absl::StatusOr<LeaseRecord*> lease = FindOwnLease(caller, name, false);
  if (!lease.ok()) return lease.status();
  const XrcdRecord& xrcd = *registry_.FindXrcd((*lease)->xrcd);
  EndLease(**lease, later);
  return static_cast<uint32_t>(xrcd.leases.size());
}

absl::StatusOr<DestroyXrcdAnswer> Broker::DestroyXrcd(const Caller& caller, const XrcdName& name) {
  constexpr size_t kMaxHolders = 100;
  Later later;
  absl::MutexLock lock(&mutex_);
  if (caller.identity.uid != name.key.owner) return Denied();
  absl::StatusOr<XrcdRecord*> found = FindXrcd(caller, name, Access::kWrite);
  if (ReasonOf(found.status()) == v1::REASON_XRCD_NOT_FOUND) return DestroyXrcdAnswer{};
  if (!found.ok()) return found.status();
  XrcdRecord& xrcd = **found;
  registry_.MarkDestroyed(xrcd);
  later.Run(
      [kept = xrcd.kept, record = RecordOf(xrcd, *xrcd.kernel->file)] { kept->Keep(record, {}); });
  DestroyXrcdAnswer answer{true, {}};
  auto add = [&](const absl::btree_set<LeaseId>& leases) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (LeaseId id : leases) {
      if (answer.holders.size() < kMaxHolders) {
        answer.holders.push_back(ViewOf(*registry_.FindLease(id)));
      }
    }
  };
  add(xrcd.leases);
  for (QpId id : xrcd.qps) add(registry_.FindQp(id)->leases);
  ReleaseXrcdIfUnused(xrcd, later);
  return answer;
}

}  // namespace qpbroker::core
