// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_BROKER_H_
#define QPBROKER_DAEMON_CORE_BROKER_H_

// The broker: every rule of who may open what, and what follows from it. It knows no sockets, no
// gRPC, no libibverbs and no clock, only the interfaces of ports.h and verbs.h.
//
// A call goes: check the request, find, may they (policy), can they afford it (ledger), do it
// (verbs, on the executor), remember it (registry), hand it over (delivery). When the handing over
// fails, the lease is taken back as if its holder had died.
//
// Threads: every method may be called from any thread. Calls that need no device answer at once, in
// the caller's thread; the others through `done`, from a thread of the executor (or at once, on an
// early error). One mutex guards the books and is never held across a verbs call, a delivery or
// `done`.

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "daemon/core/calls.h"
#include "daemon/core/identity.h"
#include "daemon/core/ids.h"
#include "daemon/core/ledger.h"
#include "daemon/core/ports.h"
#include "daemon/core/registry.h"
#include "daemon/core/session_table.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::core {

template <class T>
using Done = absl::AnyInvocable<void(absl::StatusOr<T>) &&>;

struct BrokerOptions {
  Generation generation;
  uint32_t life = 0;  // How many daemons of this generation there were before.
  QuotaLimits quotas{};
};

// All must outlive the broker.
struct BrokerPorts {
  LeasePort* leases = nullptr;
  DomainFilePort* files = nullptr;
  DeliveryPort* delivery = nullptr;
  KeeperPort* keeper = nullptr;
  Executor* executor = nullptr;
  Environment* environment = nullptr;
  Journal* journal = nullptr;
};

// What came of an earlier daemon's objects.
struct RestoreReport {
  size_t xrcds = 0;
  size_t qps = 0;
  size_t leases = 0;
  // Leases whose last holder went while no daemon was there.
  size_t ended_leases = 0;
  // Leases that were revoked, since the kernel does not have what they are on, or nobody knows what
  // that is.
  size_t revoked_leases = 0;
  // Every other difference between what was kept and what the kernel has.
  size_t differences = 0;
};

class Broker {
 public:
  Broker(const BrokerOptions& options, const BrokerPorts& ports);
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;
  // Shut down first, and let the executor run dry: aborts if the books do not balance.
  ~Broker();

  Generation generation() const { return options_.generation; }

  // ---- Devices.

  // A device that appeared. One of that name must not be known.
  void AddDevice(std::shared_ptr<verbs::Device> device);
  // It was removed or is broken: its leases get kDeviceGone and hang up, everything on it goes.
  void RemoveDevice(absl::string_view name);
  std::vector<std::string> DeviceNames() const;
  // Passes an event on to those it concerns; kDeviceFatal removes the device.
  void HandleDeviceEvent(absl::string_view device, const verbs::AsyncEvent& event);

  // Takes over what an earlier daemon left with the keeper. After AddDevice for every device named
  // in it, and before anything else: it makes verbs calls in the caller's thread.
  RestoreReport Restore(std::vector<KeptObject> kept);

  // ---- Connections and sessions.

  // The charge for a gRPC connection, held as long as it lasts.
  absl::StatusOr<Charge> ChargeConnection(uid_t uid);
  // A session begins; `nonce` are 16 random bytes.
  absl::StatusOr<SessionId> BeginSession(const PeerCredentials& identity, absl::string_view nonce);
  void EndSession(SessionId session);
  bool IsAttached(SessionId session) const;
  // Uses the nonce up. BAD_NONCE if it is not that of a waiting session of this uid.
  absl::StatusOr<SessionId> Attach(const Caller& caller, absl::string_view nonce);

  // ---- Calls.

  void ListDevices(Done<std::vector<DeviceView>> done);
  void OpenXrcd(const Caller& caller, OpenXrcdCall call, Done<OpenXrcdAnswer> done);
  void CreateQp(const Caller& caller, CreateQpCall call, Done<CreateQpAnswer> done);
  // Makes no verbs call: the warm path.
  absl::StatusOr<OpenQpAnswer> OpenQp(const Caller& caller, const OpenQpCall& call);
  void ModifyQp(const Caller& caller, const ModifyQpCall& call, Done<verbs::QpState> done);
  void ConnectQp(const Caller& caller, const ConnectQpCall& call, Done<ConnectQpAnswer> done);
  void QueryQp(const Caller& caller, const QpName& qp, Done<QueryQpAnswer> done);
  void DestroyQp(const Caller& caller, const QpName& qp, Done<DestroyQpAnswer> done);
  // The number of leases left on the same object.
  absl::StatusOr<uint32_t> CloseQp(const Caller& caller, const LeaseName& lease);
  absl::StatusOr<uint32_t> CloseXrcd(const Caller& caller, const LeaseName& lease);
  absl::StatusOr<DestroyXrcdAnswer> DestroyXrcd(const Caller& caller, const XrcdName& xrcd);

  // ---- Lists. Ordered by id; a caller of Scope::kOwn sees what is theirs.

  absl::StatusOr<Page<QpView>> ListDomainQps(const Caller& caller, const XrcdName& xrcd,
                                             absl::string_view key_prefix, const PageRequest& page);
  Page<XrcdView> ListXrcds(const Caller& caller, const PageRequest& page);
  Page<QpView> ListQps(const Caller& caller, const PageRequest& page);
  Page<LeaseView> ListLeases(const Caller& caller, const PageRequest& page);
  Page<SessionView> ListSessions(const Caller& caller, const PageRequest& page);

  // ---- What happens by itself.

  // The watcher saw that a lease has no holder any more. A lease that is gone, or that was
  // delivered again meanwhile, is left alone.
  void LeaseHolderGone(LeaseId lease);
  // Tries the numbers of lingering QPs again.
  void ProbeLingering();
  // Revokes every lease and gives every kernel object back. Later calls get SHUTTING_DOWN.
  void Shutdown();

  // Every way in which the books contradict themselves; empty when all is well. For tests and for
  // health checks.
  std::vector<std::string> CheckInvariants() const;

 private:
  class Later;
  class Restorer;
  struct Handover;
  struct PresentDevice {
    std::shared_ptr<verbs::Device> device;
    std::shared_ptr<KeptEntry> kept;
  };

  // ---- Looking things up. Permission is decided before existence shows.
  absl::Status CheckCanReceive(const Caller& caller) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<XrcdRecord*> FindXrcd(const Caller& caller, const XrcdName& name, Access access)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<QpRecord*> FindQp(const Caller& caller, const QpName& name, Access access)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<verbs::Device>> FindXrcDevice(const std::string& name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether what was begun on `device` may still be finished: SHUTTING_DOWN, DEVICE_GONE.
  absl::Status CheckStillServed(const verbs::Device& device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsPresent(const verbs::Device& device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The lease of `caller` of that name, on a QP or on a domain.
  absl::StatusOr<LeaseRecord*> FindOwnLease(const Caller& caller, const LeaseName& name, bool on_qp)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- Granting.
  // The lease or QP that a request with this tag got before; null if there is none.
  // REQUEST_ID_REUSED, REQUEST_IN_PROGRESS.
  absl::StatusOr<const RequestEntry*> FindReplay(const Caller& caller, const RequestTag& tag)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A new lease on `qp`, or on the domain where it is null; what is to be delivered goes to
  // `handover`.
  absl::StatusOr<LeaseRecord*> Grant(const Caller& caller, XrcdRecord& xrcd, QpRecord* qp,
                                     const RequestTag& tag, bool created, Handover& handover)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same lease once more.
  absl::StatusOr<LeaseRecord*> GrantAgain(const Caller& caller, LeaseId lease, Handover& handover)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void FillHandover(const LeaseRecord& lease, const QpRecord* qp, uint64_t fingerprint,
                           Handover& handover);
  // Delivers; when that fails the lease ends, unless it has a holder from before.
  absl::Status HandOver(Handover handover) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- Letting go.
  void EndLease(LeaseRecord& lease, Later& later) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsUnused(const QpRecord& qp) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseQp(QpRecord& qp, Later& later, Done<DestroyQpAnswer> done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishReleaseQp(QpId id, bool lingering) ABSL_LOCKS_EXCLUDED(mutex_);
  // Releases what only the domain kept and, when nothing is left, the domain.
  void ReleaseXrcdIfUnused(XrcdRecord& xrcd, Later& later) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Releases whatever nobody holds: what an earlier daemon did not come to.
  void ReleaseUnused() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends every lease in the domain, with `event`, takes its name and lets it go.
  void Revoke(XrcdRecord& xrcd, EventKind event, Later& later)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the kernel still has the QP afterwards.
  bool DestroyInKernel(KernelQp& qp, uint32_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the kernel took `object` back, by the answer that it gave; if not, the journal has it.
  bool IsReleased(const absl::Status& released, const verbs::Device& device,
                  absl::string_view object) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- Domains.
  // A null lease: `call` and `done` were taken along, the answer comes later.
  absl::StatusOr<LeaseRecord*> TryOpenXrcd(const Caller& caller, OpenXrcdCall& call,
                                           Done<OpenXrcdAnswer>& done, Handover& handover,
                                           Later& later) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<LeaseRecord*> StartCreateXrcd(const Caller& caller, OpenXrcdCall& call,
                                               Done<OpenXrcdAnswer>& done, Later& later)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CreateXrcdTask(const Caller& caller, const OpenXrcdCall& call, XrcdId id,
                      const std::shared_ptr<verbs::Device>& device, Done<OpenXrcdAnswer> done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<KernelXrcd>> OpenInKernel(
      const std::shared_ptr<verbs::Device>& device);
  // Has the keeper know the domain, before anybody else does.
  void KeepXrcd(XrcdId id, const KernelXrcd& kernel) ABSL_LOCKS_EXCLUDED(mutex_);
  void AbandonXrcd(XrcdRecord& xrcd, Later& later) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  OpenXrcdAnswer AnswerOf(const LeaseRecord& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- QPs.
  // Both tasks have one signature, whether or not they pass `call` on.
  using QpTask = void (Broker::*)(const Caller& caller, CreateQpCall call, QpId id,
                                  std::shared_ptr<KernelXrcd> xrcd, Done<CreateQpAnswer> done);
  absl::StatusOr<LeaseRecord*> TryOpenQp(const Caller& caller, const OpenQpCall& call,
                                         Handover& handover) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OK: `call` and `done` were taken along.
  absl::Status TryCreateQp(const Caller& caller, CreateQpCall& call, Done<CreateQpAnswer>& done,
                           Later& later) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostQpTask(QpTask task, const QpRecord& qp, const Caller& caller, CreateQpCall& call,
                  Done<CreateQpAnswer>& done, Later& later) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CreateQpTask(const Caller& caller, CreateQpCall call, QpId id,
                    std::shared_ptr<KernelXrcd> xrcd, Done<CreateQpAnswer> done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ReuseQpTask(const Caller& caller, CreateQpCall call, QpId id,
                   std::shared_ptr<KernelXrcd> xrcd, Done<CreateQpAnswer> done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<CreateQpAnswer> FinishCreateQp(const Caller& caller, const CreateQpCall& call,
                                                QpRecord& qp, const RequestEntry* replay,
                                                bool created, const verbs::PortInfo& port,
                                                Handover& handover)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompleteCreateQp(Handover handover, absl::StatusOr<CreateQpAnswer> answer,
                        Done<CreateQpAnswer> done) ABSL_LOCKS_EXCLUDED(mutex_);
  // As KeepXrcd.
  void KeepQp(QpId id, const RequestKey& request, uint32_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  void AbandonQp(QpRecord& qp, Later& later) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs `task` with the QP on its strand, for a caller who has `access`; `refuse` otherwise.
  void WithQp(const Caller& caller, const QpName& name, Access access,
              absl::AnyInvocable<void(const absl::Status&)> refuse,
              absl::AnyInvocable<void(KernelQp& qp, const QpView& view, uint32_t psn) &&> task)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- Telling.
  void SendTo(const absl::btree_set<LeaseId>& leases, const EventRecord& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendToDomain(const XrcdRecord& xrcd, const EventRecord& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MaySee(const Caller& caller, const XrcdRecord& xrcd) const;
  XrcdView ViewOf(const XrcdRecord& xrcd) const;
  QpView ViewOf(const QpRecord& qp) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LeaseView ViewOf(const LeaseRecord& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const BrokerOptions options_;
  const BrokerPorts ports_;
  Ledger ledger_;  // Outlives everything that is charged.
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::btree_map<std::string, PresentDevice> devices_ ABSL_GUARDED_BY(mutex_);
  SessionTable sessions_ ABSL_GUARDED_BY(mutex_);
  Registry registry_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_BROKER_H_
