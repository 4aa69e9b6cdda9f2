// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "daemon/rpc/convert.h"

namespace qpbroker::rpc {
namespace {

void SetTime(absl::Time time, google::protobuf::Timestamp& proto) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  proto.set_seconds(seconds);
  proto.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

std::string ToBytes(const verbs::Gid& gid) { return std::string(gid.begin(), gid.end()); }

v1::PortState ToProto(verbs::PortState state) {
  switch (state) {
    case verbs::PortState::kDown:
      return v1::PORT_STATE_DOWN;
    case verbs::PortState::kInit:
      return v1::PORT_STATE_INIT;
    case verbs::PortState::kArmed:
      return v1::PORT_STATE_ARMED;
    case verbs::PortState::kActive:
      return v1::PORT_STATE_ACTIVE;
    case verbs::PortState::kUnknown:
      break;
  }
  return v1::PORT_STATE_UNSPECIFIED;
}

const char* LinkLayerName(verbs::LinkLayer link_layer) {
  switch (link_layer) {
    case verbs::LinkLayer::kInfiniBand:
      return "InfiniBand";
    case verbs::LinkLayer::kEthernet:
      return "Ethernet";
    case verbs::LinkLayer::kUnknown:
      break;
  }
  return "unknown";
}

v1::Port ToProto(const verbs::PortInfo& port) {
  v1::Port proto;
  proto.set_number(port.number);
  proto.set_state(ToProto(port.state));
  proto.set_link_layer(LinkLayerName(port.link_layer));
  proto.set_lid(port.lid);
  proto.set_active_mtu(port.active_mtu);
  for (const verbs::Gid& gid : port.gids) {
    if (gid != verbs::Gid{}) proto.add_gids(ToBytes(gid));
  }
  for (uint16_t pkey : port.pkeys) {
    if (pkey != 0) proto.add_pkeys(pkey);
  }
  return proto;
}

v1::AccessFlags ToProto(uint32_t access) {
  v1::AccessFlags flags;
  flags.set_local_write((access & verbs::kAccessLocalWrite) != 0);
  flags.set_remote_write((access & verbs::kAccessRemoteWrite) != 0);
  flags.set_remote_read((access & verbs::kAccessRemoteRead) != 0);
  flags.set_remote_atomic((access & verbs::kAccessRemoteAtomic) != 0);
  return flags;
}

v1::Path ToPath(const core::QueryQpAnswer& answer) {
  const verbs::AddressVector& av = answer.attributes.av;
  v1::Path path;
  path.set_dlid(av.dlid);
  path.set_service_level(av.service_level);
  path.set_source_path_bits(av.source_path_bits);
  path.set_rate_mbps(av.rate_mbps);
  if (av.is_global) {
    v1::GlobalRoute& route = *path.mutable_global_route();
    route.set_dgid(ToBytes(av.dgid));
    if (answer.sgid) {
      route.mutable_sgid()->set_value(ToBytes(*answer.sgid));
    } else {
      route.mutable_sgid()->set_index(av.sgid_index);
    }
    route.set_hop_limit(av.hop_limit);
    route.set_traffic_class(av.traffic_class);
    route.set_flow_label(av.flow_label);
  }
  return path;
}

}  // namespace

v1::Device ToProto(const core::DeviceView& device) {
  v1::Device proto;
  proto.set_name("devices/" + device.info.name);
  proto.set_xrc_supported(device.info.xrc_supported);
  proto.set_xrc_unsupported_reason(device.info.xrc_unsupported_reason);
  proto.set_firmware(device.info.firmware);
  proto.set_node_guid(absl::StrFormat("%016x", device.info.node_guid));
  for (const verbs::PortInfo& port : device.ports) *proto.add_ports() = ToProto(port);
  proto.set_max_qp(device.info.max_qp);
  return proto;
}

v1::Xrcd ToProto(const core::XrcdView& xrcd, core::Generation generation) {
  v1::Xrcd proto;
  proto.set_name(core::FormatXrcdName(xrcd.key, generation));
  proto.set_owner_uid(xrcd.key.owner);
  proto.set_gid(xrcd.gid);
  proto.set_mode(xrcd.mode);
  proto.mutable_member_uids()->Add(xrcd.members.begin(), xrcd.members.end());
  proto.set_life(xrcd.life == core::XrcdLife::kPersistent ? v1::XRCD_LIFE_PERSISTENT
                                                          : v1::XRCD_LIFE_LEASES);
  proto.set_destroyed(xrcd.destroyed);
  SetTime(xrcd.created, *proto.mutable_create_time());
  proto.set_lease_count(xrcd.leases);
  proto.set_qp_count(xrcd.qps);
  return proto;
}

v1::Qp ToProto(const core::QpView& qp, core::Generation generation) {
  v1::Qp proto;
  proto.set_name(core::FormatQpName(qp.xrcd, generation, qp.number));
  proto.set_qp_num(qp.number);
  proto.set_key(qp.key);
  proto.set_life(qp.life == core::QpLife::kDomain ? v1::QP_LIFE_DOMAIN : v1::QP_LIFE_HOLDERS);
  proto.set_creator_uid(qp.creator);
  proto.set_lease_count(qp.leases);
  proto.set_destroyed(qp.destroyed);
  proto.set_lingering(qp.lingering);
  SetTime(qp.created, *proto.mutable_create_time());
  return proto;
}

v1::Lease ToProto(const core::LeaseView& lease, core::Generation generation) {
  v1::Lease proto;
  proto.set_name(core::FormatLeaseName(lease.id, generation));
  proto.set_target(lease.qp_num ? core::FormatQpName(lease.xrcd, generation, *lease.qp_num)
                                : core::FormatXrcdName(lease.xrcd, generation));
  proto.set_uid(lease.uid);
  proto.set_pid(lease.pid);
  SetTime(lease.created, *proto.mutable_create_time());
  return proto;
}

v1::Session ToProto(const core::SessionView& session, core::Generation generation) {
  v1::Session proto;
  proto.set_name(core::FormatSessionName(session.id, generation));
  proto.set_uid(session.uid);
  proto.set_pid(session.pid);
  proto.set_attached(session.attached);
  SetTime(session.created, *proto.mutable_create_time());
  return proto;
}

v1::QpEndpoint ToProto(const core::QpEndpoint& endpoint) {
  v1::QpEndpoint proto;
  proto.set_qp_num(endpoint.qp_num);
  proto.set_port(endpoint.port);
  proto.set_lid(endpoint.lid);
  proto.set_gid(ToBytes(endpoint.gid));
  proto.set_gid_index(endpoint.gid_index);
  proto.set_mtu(endpoint.mtu);
  proto.set_psn(endpoint.psn);
  return proto;
}

v1::QpState ToProto(verbs::QpState state) {
  switch (state) {
    case verbs::QpState::kReset:
      return v1::QP_STATE_RESET;
    case verbs::QpState::kInit:
      return v1::QP_STATE_INIT;
    case verbs::QpState::kRtr:
      return v1::QP_STATE_RTR;
    case verbs::QpState::kRts:
      return v1::QP_STATE_RTS;
    case verbs::QpState::kSqd:
      return v1::QP_STATE_SQD;
    case verbs::QpState::kSqe:
      return v1::QP_STATE_SQE;
    case verbs::QpState::kErr:
      return v1::QP_STATE_ERR;
  }
  return v1::QP_STATE_UNSPECIFIED;
}

// Only what means something in the QP's state: a QP that was just made has no port yet.
v1::QpAttributes ToProto(const core::QueryQpAnswer& answer) {
  const verbs::QpAttributes& from = answer.attributes;
  v1::QpAttributes proto;
  proto.set_state(ToProto(from.state));
  if (from.state == verbs::QpState::kReset) return proto;
  proto.set_port(from.port);
  proto.set_pkey(answer.pkey);
  *proto.mutable_access() = ToProto(from.access);
  if (from.state == verbs::QpState::kInit) return proto;
  proto.set_path_mtu(from.path_mtu);
  proto.set_dest_qp_num(from.dest_qp_num);
  proto.set_rq_psn(from.rq_psn);
  proto.set_sq_psn(from.sq_psn);
  proto.set_max_dest_rd_atomic(from.max_dest_rd_atomic);
  proto.set_min_rnr_timer(from.min_rnr_timer);
  proto.set_timeout(from.timeout);
  *proto.mutable_path() = ToPath(answer);
  return proto;
}

v1::Grant ToGrant(core::LeaseId lease, core::Generation generation) {
  v1::Grant grant;
  grant.set_grant_id(lease.value());
  grant.set_lease(core::FormatLeaseName(lease, generation));
  return grant;
}

}  // namespace qpbroker::rpc
