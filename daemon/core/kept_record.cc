// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/kept_record.h"

#include <utility>

namespace qpbroker::core {
namespace {

constexpr uint32_t kMax24Bits = (1u << 24) - 1;

void SetTime(absl::Time time, google::protobuf::Timestamp& stamp) {
  const timespec spec = absl::ToTimespec(time);
  stamp.set_seconds(spec.tv_sec);
  stamp.set_nanos(static_cast<int32_t>(spec.tv_nsec));
}

absl::Time TimeOf(const google::protobuf::Timestamp& stamp) {
  return absl::FromUnixSeconds(stamp.seconds()) + absl::Nanoseconds(stamp.nanos());
}

void SetRequest(const RequestKey& key, uint64_t fingerprint, keeper::v1::Request& request) {
  request.set_uid(key.first);
  request.set_id(key.second);
  request.set_fingerprint(fingerprint);
}

RequestKey KeyOf(const keeper::v1::Request& request) { return {request.uid(), request.id()}; }

}  // namespace

keeper::v1::Record RecordOf(const XrcdRecord& xrcd, const DomainFile& file) {
  keeper::v1::Record record;
  keeper::v1::Xrcd& out = *record.mutable_xrcd();
  out.set_id(xrcd.id.value());
  out.set_device(xrcd.key.device);
  out.set_owner(xrcd.key.owner);
  out.set_name(xrcd.key.name);
  out.set_gid(xrcd.acl.group);
  out.set_mode(xrcd.acl.mode);
  for (uid_t member : xrcd.acl.members) out.add_member_uids(member);
  out.set_persistent(xrcd.life == XrcdLife::kPersistent);
  SetTime(xrcd.created, *out.mutable_create_time());
  out.set_destroyed(xrcd.destroyed);
  out.set_file(file.name());
  return record;
}

std::unique_ptr<XrcdRecord> XrcdOf(const keeper::v1::Xrcd& record) {
  if (record.id() == 0 || record.device().empty() || record.name().empty()) return nullptr;
  auto xrcd = std::make_unique<XrcdRecord>();
  xrcd->id = XrcdId(record.id());
  xrcd->key = {record.device(), record.owner(), record.name()};
  xrcd->acl = {record.owner(), record.gid(), record.mode(), {}};
  xrcd->acl.members.assign(record.member_uids().begin(), record.member_uids().end());
  xrcd->life = record.persistent() ? XrcdLife::kPersistent : XrcdLife::kLeases;
  xrcd->created = TimeOf(record.create_time());
  xrcd->destroyed = record.destroyed();
  return xrcd;
}

keeper::v1::Record RecordOf(const QpRecord& qp, const RequestEntry* request) {
  keeper::v1::Record record;
  keeper::v1::Qp& out = *record.mutable_qp();
  out.set_id(qp.id.value());
  out.set_xrcd(qp.xrcd.value());
  out.set_qp_num(qp.number);
  out.set_key(qp.key);
  out.set_domain_life(qp.life == QpLife::kDomain);
  out.set_creator_uid(qp.creator);
  SetTime(qp.created, *out.mutable_create_time());
  out.set_psn(qp.psn);
  out.set_port(qp.port);
  out.set_destroyed(qp.destroyed);
  if (request != nullptr) SetRequest(qp.request, request->fingerprint, *out.mutable_request());
  return record;
}

std::unique_ptr<QpRecord> QpOf(const keeper::v1::Qp& record) {
  if (record.id() == 0 || record.qp_num() == 0 || record.qp_num() > kMax24Bits) return nullptr;
  auto qp = std::make_unique<QpRecord>();
  qp->id = QpId(record.id());
  qp->xrcd = XrcdId(record.xrcd());
  qp->number = record.qp_num();
  qp->key = record.key();
  qp->life = record.domain_life() ? QpLife::kDomain : QpLife::kHolders;
  qp->creator = record.creator_uid();
  qp->created = TimeOf(record.create_time());
  qp->psn = record.psn() & kMax24Bits;
  qp->port = static_cast<uint8_t>(record.port());
  qp->destroyed = record.destroyed();
  qp->request = KeyOf(record.request());
  return qp;
}

keeper::v1::Record RecordOf(const LeaseRecord& lease, const QpRecord* qp, uint64_t fingerprint) {
  keeper::v1::Record record;
  keeper::v1::Lease& out = *record.mutable_lease();
  out.set_id(lease.id.value());
  out.set_xrcd(lease.xrcd.value());
  if (qp != nullptr) {
    out.set_qp(qp->id.value());
    out.set_qp_num(qp->number);
  }
  out.set_uid(lease.uid);
  out.set_pid(lease.pid);
  SetTime(lease.created, *out.mutable_create_time());
  SetRequest(lease.request, fingerprint, *out.mutable_request());
  out.set_created_target(lease.created_target);
  return record;
}

std::unique_ptr<LeaseRecord> LeaseOf(const keeper::v1::Lease& record) {
  if (record.id() == 0) return nullptr;
  auto lease = std::make_unique<LeaseRecord>();
  lease->id = LeaseId(record.id());
  lease->xrcd = XrcdId(record.xrcd());
  if (record.qp() != 0) lease->qp = QpId(record.qp());
  lease->uid = record.uid();
  lease->pid = record.pid();
  lease->created = TimeOf(record.create_time());
  lease->request = KeyOf(record.request());
  lease->created_target = record.created_target();
  return lease;
}

}  // namespace qpbroker::core
