// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/registry.h"

#include <cstdio>
#include <cstdlib>

namespace qpbroker::core {
namespace {

// A broken invariant here means that counts are wrong: end, and let the successor start with true
// ones.
void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "qpbroker: the registry is inconsistent: %s\n", what);
  std::abort();
}

template <class Map, class Key>
auto* Find(Map& map, const Key& key) {
  auto found = map.find(key);
  return found == map.end() ? nullptr : found->second.get();
}

template <class Map, class Key>
auto Take(Map& map, const Key& key) {
  auto found = map.find(key);
  Require(found != map.end(), "an object is removed twice");
  auto record = std::move(found->second);
  map.erase(found);
  return record;
}

}  // namespace

Registry::~Registry() {
  Require(leases_.empty() && qps_.empty() && xrcds_.empty() && names_.empty() && requests_.empty(),
          "destroyed while it holds something");
}

void Registry::BeginLife(uint32_t life) {
  last_xrcd_ = last_qp_ = last_lease_ = uint64_t{life} << 32;
}

XrcdRecord& Registry::AddXrcd(XrcdKey key, DomainAcl acl, XrcdLife life, absl::Time now,
                              Charge charge) {
  auto record = std::make_unique<XrcdRecord>();
  record->id = XrcdId(++last_xrcd_);
  record->key = std::move(key);
  record->acl = std::move(acl);
  record->life = life;
  record->created = now;
  record->charge = std::move(charge);
  return AdoptXrcd(std::move(record));
}

XrcdRecord& Registry::AdoptXrcd(std::unique_ptr<XrcdRecord> xrcd) {
  const XrcdId id = xrcd->id;
  if (!xrcd->destroyed) Require(names_.emplace(xrcd->key, id).second, "two domains with one name");
  auto [added, is_new] = xrcds_.emplace(id, std::move(xrcd));
  Require(is_new, "two domains with one id");
  return *added->second;
}

XrcdRecord* Registry::FindXrcd(XrcdId id) { return Find(xrcds_, id); }

XrcdRecord* Registry::FindXrcd(const XrcdKey& key) {
  auto found = names_.find(key);
  return found == names_.end() ? nullptr : FindXrcd(found->second);
}

void Registry::MarkDestroyed(XrcdRecord& xrcd) {
  if (std::exchange(xrcd.destroyed, true)) return;
  Require(names_.erase(xrcd.key) == 1, "a domain that has no name");
}

std::unique_ptr<XrcdRecord> Registry::RemoveXrcd(XrcdRecord& xrcd) {
  Require(xrcd.leases.empty() && xrcd.qps.empty(), "a domain is removed while it is in use");
  MarkDestroyed(xrcd);
  return Take(xrcds_, xrcd.id);
}

QpRecord& Registry::AddQp(XrcdRecord& xrcd, std::string key, QpLife life, uid_t creator,
                          absl::Time now, Charge charge) {
  auto record = std::make_unique<QpRecord>();
  record->id = QpId(++last_qp_);
  record->xrcd = xrcd.id;
  record->key = std::move(key);
  record->life = life;
  record->creator = creator;
  record->created = now;
  record->charge = std::move(charge);
  return AdoptQp(std::move(record));
}

QpRecord& Registry::AdoptQp(std::unique_ptr<QpRecord> qp) {
  const QpId id = qp->id;
  XrcdRecord& xrcd = *FindXrcd(qp->xrcd);
  if (!qp->key.empty() && !qp->destroyed) {
    Require(xrcd.by_key.emplace(qp->key, id).second, "two QPs with one key");
  }
  xrcd.qps.insert(id);
  auto [added, is_new] = qps_.emplace(id, std::move(qp));
  Require(is_new, "two QPs with one id");
  return *added->second;
}

QpRecord* Registry::FindQp(QpId id) { return Find(qps_, id); }

QpRecord* Registry::FindQp(const XrcdRecord& xrcd, uint32_t number) {
  auto found = xrcd.by_number.find(number);
  return found == xrcd.by_number.end() ? nullptr : FindQp(found->second);
}

QpRecord* Registry::FindQpByKey(const XrcdRecord& xrcd, absl::string_view key) {
  auto found = xrcd.by_key.find(key);
  return found == xrcd.by_key.end() ? nullptr : FindQp(found->second);
}

void Registry::SetLive(QpRecord& qp, std::shared_ptr<KernelQp> kernel) {
  qp.number = kernel->qp->number();
  qp.kernel = std::move(kernel);
  qp.phase = QpPhase::kLive;
  Require(FindXrcd(qp.xrcd)->by_number.emplace(qp.number, qp.id).second,
          "the device gave one number to two QPs");
}

void Registry::MarkDestroyed(QpRecord& qp) {
  if (std::exchange(qp.destroyed, true)) return;
  if (!qp.key.empty()) FindXrcd(qp.xrcd)->by_key.erase(qp.key);
}

void Registry::SetReleasing(QpRecord& qp) {
  Require(qp.leases.empty(), "a QP is released while it is held");
  MarkDestroyed(qp);
  if (qp.phase == QpPhase::kLive) FindXrcd(qp.xrcd)->by_number.erase(qp.number);
  qp.phase = QpPhase::kReleasing;
}

std::unique_ptr<QpRecord> Registry::RemoveQp(QpRecord& qp) {
  SetReleasing(qp);
  FindXrcd(qp.xrcd)->qps.erase(qp.id);
  if (!qp.request.second.empty()) RemoveRequest(qp.request);
  return Take(qps_, qp.id);
}

absl::btree_set<LeaseId>& Registry::HoldersOf(const LeaseRecord& lease) {
  QpRecord* qp = lease.qp ? FindQp(*lease.qp) : nullptr;
  XrcdRecord* xrcd = FindXrcd(lease.xrcd);
  Require(xrcd != nullptr && (qp != nullptr || !lease.qp), "a lease on nothing");
  return qp != nullptr ? qp->leases : xrcd->leases;
}

LeaseRecord& Registry::AddLease(std::unique_ptr<LeaseRecord> lease) {
  HoldersOf(*lease).insert(lease->id);
  const LeaseId id = lease->id;
  return *leases_.emplace(id, std::move(lease)).first->second;
}

LeaseRecord* Registry::FindLease(LeaseId id) { return Find(leases_, id); }

std::unique_ptr<LeaseRecord> Registry::RemoveLease(LeaseRecord& lease) {
  Require(HoldersOf(lease).erase(lease.id) == 1, "a lease is taken back twice");
  RemoveRequest(lease.request);
  return Take(leases_, lease.id);
}

RequestEntry* Registry::FindRequest(const RequestKey& key) {
  auto found = requests_.find(key);
  return found == requests_.end() ? nullptr : &found->second;
}

RequestEntry& Registry::AddRequest(const RequestKey& key, uint64_t fingerprint) {
  auto [entry, added] = requests_.emplace(key, RequestEntry{fingerprint, {}, {}});
  Require(added, "a request is begun twice");
  return entry->second;
}

void Registry::RemoveRequest(const RequestKey& key) {
  Require(requests_.erase(key) == 1, "a request ends twice");
}

}  // namespace qpbroker::core
