// SPDX-License-Identifier: Apache-2.0
//
// What the books say, as copies.
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "daemon/core/broker.h"
#include "daemon/core/broker_internal.h"

namespace qpbroker::core {
namespace {

// The entries of `map` (by id or number) behind `page.after` that `view` turns into something:
// those for which it returns nullopt are not the caller's to see.
//
// Not analysed: clang cannot know here that the mutex which `view` requires is held.
template <class Entry, class Map, class View>
Page<Entry> TakePage(const Map& map, const PageRequest& page,
                     const View& view) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Page<Entry> result;
  uint64_t last = 0;
  for (auto it = map.upper_bound(typename Map::key_type(page.after)); it != map.end(); ++it) {
    std::optional<Entry> entry = view(it->second);
    if (!entry) continue;
    if (result.entries.size() == page.size) {
      result.next_after = last;
      break;
    }
    if constexpr (std::is_integral_v<typename Map::key_type>) {
      last = it->first;
    } else {
      last = it->first.value();
    }
    result.entries.push_back(*std::move(entry));
  }
  return result;
}

}  // namespace

bool Broker::MaySee(const Caller& caller, const XrcdRecord& xrcd) const {
  return caller.scope == Scope::kAll || Allows(xrcd.acl, caller.identity, Access::kRead);
}

XrcdView Broker::ViewOf(const XrcdRecord& xrcd) const {
  return {xrcd.key,
          xrcd.acl.group,
          xrcd.acl.mode,
          xrcd.acl.members,
          xrcd.life,
          xrcd.destroyed,
          xrcd.created,
          static_cast<uint32_t>(xrcd.leases.size()),
          static_cast<uint32_t>(xrcd.qps.size())};
}

QpView Broker::ViewOf(const QpRecord& qp) {
  return {registry_.FindXrcd(qp.xrcd)->key,
          qp.number,
          qp.key,
          qp.life,
          qp.creator,
          static_cast<uint32_t>(qp.leases.size()),
          qp.destroyed,
          qp.phase == QpPhase::kLingering,
          qp.created};
}

LeaseView Broker::ViewOf(const LeaseRecord& lease) {
  LeaseView view{lease.id,     registry_.FindXrcd(lease.xrcd)->key,
                 std::nullopt, lease.uid,
                 lease.pid,    lease.created};
  if (lease.qp) view.qp_num = registry_.FindQp(*lease.qp)->number;
  return view;
}

void Broker::ListDevices(Done<std::vector<DeviceView>> done) {
  struct Gathering {
    absl::Mutex mutex;
    size_t missing = 0;
    absl::btree_map<std::string, DeviceView> views;
    Done<std::vector<DeviceView>> done;
  };
  auto gathering = std::make_shared<Gathering>();
  std::vector<std::shared_ptr<verbs::Device>> devices;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, present] : devices_) devices.push_back(present.device);
  }
  if (devices.empty()) return std::move(done)(std::vector<DeviceView>{});
  gathering->missing = devices.size();
  gathering->done = std::move(done);
  for (std::shared_ptr<verbs::Device>& device : devices) {
    std::string name = device->info().name;
    ports_.executor->Post(name, kDeviceStrand, [gathering, device = std::move(device)] {
      DeviceView view{device->info(), {}};
      // A device that fails to answer is shown without ports: it is still there.
      if (auto ports = device->QueryPorts(); ports.ok()) view.ports = *std::move(ports);
      std::vector<DeviceView> all;
      {
        absl::MutexLock lock(&gathering->mutex);
        gathering->views.emplace(view.info.name, std::move(view));
        if (--gathering->missing > 0) return;
        for (auto& [key, entry] : gathering->views) all.push_back(std::move(entry));
      }
      std::move(gathering->done)(std::move(all));
    });
  }
}

absl::StatusOr<Page<QpView>> Broker::ListDomainQps(const Caller& caller, const XrcdName& name,
                                                   absl::string_view key_prefix,
                                                   const PageRequest& page) {
  absl::MutexLock lock(&mutex_);
  absl::StatusOr<XrcdRecord*> xrcd = FindXrcd(caller, name, Access::kRead);
  if (!xrcd.ok()) return xrcd.status();
  return TakePage<QpView>(
      (*xrcd)->by_number, page, [&](QpId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        const QpRecord& qp = *registry_.FindQp(id);
        return !qp.destroyed && absl::StartsWith(qp.key, key_prefix) ? std::optional(ViewOf(qp))
                                                                     : std::nullopt;
      });
}

Page<XrcdView> Broker::ListXrcds(const Caller& caller, const PageRequest& page) {
  absl::MutexLock lock(&mutex_);
  return TakePage<XrcdView>(registry_.xrcds(), page, [&](const auto& xrcd) {
    const bool visible = xrcd->kernel != nullptr && MaySee(caller, *xrcd);
    return visible ? std::optional(ViewOf(*xrcd)) : std::nullopt;
  });
}

Page<QpView> Broker::ListQps(const Caller& caller, const PageRequest& page) {
  absl::MutexLock lock(&mutex_);
  return TakePage<QpView>(
      registry_.qps(), page, [&](const auto& qp) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        const bool visible =
            qp->phase != QpPhase::kCreating && MaySee(caller, *registry_.FindXrcd(qp->xrcd));
        return visible ? std::optional(ViewOf(*qp)) : std::nullopt;
      });
}

Page<LeaseView> Broker::ListLeases(const Caller& caller, const PageRequest& page) {
  absl::MutexLock lock(&mutex_);
  const uid_t uid = caller.identity.uid;
  return TakePage<LeaseView>(
      registry_.leases(), page, [&](const auto& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        const bool visible = caller.scope == Scope::kAll || lease->uid == uid ||
                             registry_.FindXrcd(lease->xrcd)->acl.owner == uid;
        return visible ? std::optional(ViewOf(*lease)) : std::nullopt;
      });
}

Page<SessionView> Broker::ListSessions(const Caller& caller, const PageRequest& page) {
  absl::MutexLock lock(&mutex_);
  return TakePage<SessionView>(sessions_.sessions(), page, [&](const SessionRecord& session) {
    const bool visible = caller.scope == Scope::kAll || session.identity.uid == caller.identity.uid;
    return visible
               ? std::optional(SessionView{session.id, session.identity.uid, session.identity.pid,
                                           session.nonce.empty(), session.created})
               : std::nullopt;
  });
}

}  // namespace qpbroker::core
