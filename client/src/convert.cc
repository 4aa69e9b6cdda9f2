// SPDX-License-Identifier: Apache-2.0
#include "client/src/convert.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "google/protobuf/timestamp.pb.h"

namespace qpbroker::client {
namespace {

// The public enums have the API's numbers, so that a value goes through as it is.
static_assert(static_cast<int>(QpState::kReset) == v1::QP_STATE_RESET);
static_assert(static_cast<int>(QpState::kErr) == v1::QP_STATE_ERR);
static_assert(static_cast<int>(PortState::kDown) == v1::PORT_STATE_DOWN);
static_assert(static_cast<int>(PortState::kActive) == v1::PORT_STATE_ACTIVE);

PortState FromProto(v1::PortState state) {
  return v1::PortState_IsValid(state) ? static_cast<PortState>(state) : PortState::kUnknown;
}

std::string ToBytes(const Gid& gid) { return std::string(gid.begin(), gid.end()); }

Gid ToGid(const std::string& bytes) {
  Gid gid{};
  if (bytes.size() == gid.size()) std::copy(bytes.begin(), bytes.end(), gid.begin());
  return gid;
}

std::chrono::system_clock::time_point ToTime(const google::protobuf::Timestamp& timestamp) {
  // Added as durations of their own units: seconds far from now do not overflow before the cast.
  auto since_epoch = std::chrono::seconds(timestamp.seconds());
  constexpr auto kLimit = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::duration::max() / 2);
  since_epoch = std::clamp(since_epoch, -kLimit, kLimit);
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since_epoch) +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(timestamp.nanos())));
}

void ToProto(const AccessFlags& access, v1::AccessFlags& message) {
  message.set_local_write(access.local_write);
  message.set_remote_write(access.remote_write);
  message.set_remote_read(access.remote_read);
  message.set_remote_atomic(access.remote_atomic);
}

AccessFlags FromProto(const v1::AccessFlags& message) {
  return {.local_write = message.local_write(),
          .remote_write = message.remote_write(),
          .remote_read = message.remote_read(),
          .remote_atomic = message.remote_atomic()};
}

void ToProto(const GlobalRoute& route, v1::GlobalRoute& message) {
  message.set_dgid(ToBytes(route.dgid));
  if (route.sgid) {
    message.mutable_sgid()->set_value(ToBytes(*route.sgid));
  } else if (route.sgid_index) {
    message.mutable_sgid()->set_index(*route.sgid_index);
  }
  message.set_hop_limit(route.hop_limit);
  message.set_traffic_class(route.traffic_class);
  message.set_flow_label(route.flow_label);
}

GlobalRoute FromProto(const v1::GlobalRoute& message) {
  GlobalRoute route;
  route.dgid = ToGid(message.dgid());
  if (message.sgid().has_value()) route.sgid = ToGid(message.sgid().value());
  if (message.sgid().has_index()) route.sgid_index = message.sgid().index();
  route.hop_limit = message.hop_limit();
  route.traffic_class = message.traffic_class();
  route.flow_label = message.flow_label();
  return route;
}

void ToProto(const Path& path, v1::Path& message) {
  message.set_dlid(path.dlid);
  if (path.global_route) ToProto(*path.global_route, *message.mutable_global_route());
  message.set_service_level(path.service_level);
  message.set_source_path_bits(path.source_path_bits);
  message.set_rate_mbps(path.rate_mbps);
}

Path FromProto(const v1::Path& message) {
  Path path;
  path.dlid = message.dlid();
  if (message.has_global_route()) path.global_route = FromProto(message.global_route());
  path.service_level = message.service_level();
  path.source_path_bits = message.source_path_bits();
  path.rate_mbps = message.rate_mbps();
  return path;
}

Port FromProto(const v1::Port& message) {
  Port port;
  port.number = message.number();
  port.state = FromProto(message.state());
  port.link_layer = message.link_layer();
  port.lid = message.lid();
  port.active_mtu = message.active_mtu();
  for (const std::string& gid : message.gids()) port.gids.push_back(ToGid(gid));
  port.pkeys.assign(message.pkeys().begin(), message.pkeys().end());
  return port;
}

}  // namespace

void ToProto(const OpenXrcdOptions& options, v1::OpenXrcdRequest& request) {
  request.set_device(options.device);
  if (options.owner_uid) request.set_owner_uid(*options.owner_uid);
  request.set_name(options.name);
  request.set_create(options.create);
  request.set_exclusive(options.exclusive);
  request.set_mode(options.mode);
  if (options.gid) request.set_gid(*options.gid);
  request.mutable_member_uids()->Add(options.member_uids.begin(), options.member_uids.end());
  request.set_life(options.life == XrcdLife::kPersistent ? v1::XRCD_LIFE_PERSISTENT
                                                         : v1::XRCD_LIFE_LEASES);
}

void ToProto(const CreateQpOptions& options, v1::CreateQpRequest& request) {
  request.set_key(options.key);
  request.set_exclusive(options.exclusive);
  request.set_life(options.life == QpLife::kDomain ? v1::QP_LIFE_DOMAIN : v1::QP_LIFE_HOLDERS);
  request.set_port(options.port);
}

void ToProto(const ConnectQpOptions& options, v1::ConnectQpRequest& request) {
  v1::RemoteEndpoint& remote = *request.mutable_remote();
  remote.set_qp_num(options.remote.qp_num);
  remote.set_psn(options.remote.psn);
  ToProto(options.remote.path, *remote.mutable_path());
  request.set_port(options.port);
  request.set_pkey(options.pkey);
  if (options.access) ToProto(*options.access, *request.mutable_access());
  request.set_path_mtu(options.path_mtu);
  if (options.psn) request.set_psn(*options.psn);
  if (options.max_dest_rd_atomic) request.set_max_dest_rd_atomic(*options.max_dest_rd_atomic);
  if (options.min_rnr_timer) request.set_min_rnr_timer(*options.min_rnr_timer);
  if (options.timeout) request.set_timeout(*options.timeout);
}

void ToProto(const QpAttributes& attributes, v1::QpAttributes& message) {
  if (attributes.state) message.set_state(static_cast<v1::QpState>(*attributes.state));
  if (attributes.port) message.set_port(*attributes.port);
  if (attributes.pkey) message.set_pkey(*attributes.pkey);
  if (attributes.access) ToProto(*attributes.access, *message.mutable_access());
  if (attributes.path_mtu) message.set_path_mtu(*attributes.path_mtu);
  if (attributes.dest_qp_num) message.set_dest_qp_num(*attributes.dest_qp_num);
  if (attributes.rq_psn) message.set_rq_psn(*attributes.rq_psn);
  if (attributes.sq_psn) message.set_sq_psn(*attributes.sq_psn);
  if (attributes.max_dest_rd_atomic) {
    message.set_max_dest_rd_atomic(*attributes.max_dest_rd_atomic);
  }
  if (attributes.min_rnr_timer) message.set_min_rnr_timer(*attributes.min_rnr_timer);
  if (attributes.timeout) message.set_timeout(*attributes.timeout);
  if (attributes.path) ToProto(*attributes.path, *message.mutable_path());
}

Identity FromProto(const v1::WhoAmIResponse& message) {
  Identity identity;
  identity.uid = message.uid();
  identity.gid = message.gid();
  identity.groups.assign(message.groups().begin(), message.groups().end());
  identity.pid = message.pid();
  identity.session = message.session();
  identity.generation = message.generation();
  identity.version = message.version();
  return identity;
}

Device FromProto(const v1::Device& message) {
  Device device;
  device.name = message.name();
  device.xrc_supported = message.xrc_supported();
  device.xrc_unsupported_reason = message.xrc_unsupported_reason();
  device.firmware = message.firmware();
  device.node_guid = message.node_guid();
  for (const v1::Port& port : message.ports()) device.ports.push_back(FromProto(port));
  device.max_qp = message.max_qp();
  return device;
}

XrcdInfo FromProto(const v1::Xrcd& message) {
  XrcdInfo info;
  info.name = message.name();
  info.owner_uid = message.owner_uid();
  info.gid = message.gid();
  info.mode = message.mode();
  info.member_uids.assign(message.member_uids().begin(), message.member_uids().end());
  info.life =
      message.life() == v1::XRCD_LIFE_PERSISTENT ? XrcdLife::kPersistent : XrcdLife::kLeases;
  info.destroyed = message.destroyed();
  info.create_time = ToTime(message.create_time());
  info.lease_count = message.lease_count();
  info.qp_count = message.qp_count();
  return info;
}

QpInfo FromProto(const v1::Qp& message) {
  QpInfo info;
  info.name = message.name();
  info.qp_num = message.qp_num();
  info.key = message.key();
  info.life = message.life() == v1::QP_LIFE_DOMAIN ? QpLife::kDomain : QpLife::kHolders;
  info.creator_uid = message.creator_uid();
  info.lease_count = message.lease_count();
  info.destroyed = message.destroyed();
  info.lingering = message.lingering();
  info.create_time = ToTime(message.create_time());
  return info;
}

LeaseInfo FromProto(const v1::Lease& message) {
  LeaseInfo info;
  info.name = message.name();
  info.target = message.target();
  info.uid = message.uid();
  info.pid = message.pid();
  info.create_time = ToTime(message.create_time());
  return info;
}

QpEndpoint FromProto(const v1::QpEndpoint& message) {
  QpEndpoint endpoint;
  endpoint.qp_num = message.qp_num();
  endpoint.port = message.port();
  endpoint.lid = message.lid();
  endpoint.gid = ToGid(message.gid());
  endpoint.gid_index = message.gid_index();
  endpoint.mtu = message.mtu();
  endpoint.psn = message.psn();
  return endpoint;
}

QpAttributes FromProto(const v1::QpAttributes& message) {
  QpAttributes attributes;
  if (message.has_state()) attributes.state = FromProto(message.state());
  if (message.has_port()) attributes.port = message.port();
  if (message.has_pkey()) attributes.pkey = message.pkey();
  if (message.has_access()) attributes.access = FromProto(message.access());
  if (message.has_path_mtu()) attributes.path_mtu = message.path_mtu();
  if (message.has_dest_qp_num()) attributes.dest_qp_num = message.dest_qp_num();
  if (message.has_rq_psn()) attributes.rq_psn = message.rq_psn();
  if (message.has_sq_psn()) attributes.sq_psn = message.sq_psn();
  if (message.has_max_dest_rd_atomic()) {
    attributes.max_dest_rd_atomic = message.max_dest_rd_atomic();
  }
  if (message.has_min_rnr_timer()) attributes.min_rnr_timer = message.min_rnr_timer();
  if (message.has_timeout()) attributes.timeout = message.timeout();
  if (message.has_path()) attributes.path = FromProto(message.path());
  return attributes;
}

QpState FromProto(v1::QpState state) {
  return v1::QpState_IsValid(state) ? static_cast<QpState>(state) : QpState::kUnknown;
}

}  // namespace qpbroker::client
