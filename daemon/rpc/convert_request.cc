// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/field_error.h"

// Returns from the function when `expression` is an error.
#define QPB_RETURN_IF_ERROR(expression)                             \
  do {                                                              \
    if (absl::Status qpb_status = (expression); !qpb_status.ok()) { \
      return qpb_status;                                            \
    }                                                               \
  } while (false)

namespace qpbroker::rpc {
namespace {

constexpr uint32_t kMax24Bits = (1u << 24) - 1;
constexpr uint32_t kMax5Bits = 31;
constexpr int kMaxMembers = 1024;

// Puts what was parsed into `value`, or says why it could not be.
template <class T>
absl::Status Read(absl::StatusOr<T> parsed, T& value) {
  if (!parsed.ok()) return parsed.status();
  value = *std::move(parsed);
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view field, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(value, " is not in ", least, " to ", most));
}

absl::StatusOr<core::RequestTag> ToTag(const google::protobuf::Message& request,
                                       const std::string& request_id) {
  if (request_id.empty()) return MissingField("request_id");
  if (!core::IsRequestId(request_id)) {
    return InvalidField("request_id", "1 to 64 characters of [A-Za-z0-9._:-] are allowed");
  }
  // The same id must mean the same call with the same fields. The next daemon must find the same
  // fingerprint: absl::Hash would have another seed in each process.
  const uint64_t fingerprint = std::hash<std::string>()(
      absl::StrCat(request.GetDescriptor()->full_name(), " ", request.SerializeAsString()));
  return core::RequestTag{request_id, fingerprint};
}

// What the calls that grant a QP have in common.
template <class Request, class Call>
absl::Status ReadTagAndXrcd(const Request& request, Call& call) {
  QPB_RETURN_IF_ERROR(Read(ToTag(request, request.request_id()), call.request));
  return Read(core::ParseXrcdName("xrcd", request.xrcd()), call.xrcd);
}

absl::Status CheckKey(const std::string& key) {
  if (core::IsQpKey(key)) return absl::OkStatus();
  return InvalidField("key", "0 to 128 characters of [A-Za-z0-9._:/-] are allowed");
}

absl::StatusOr<core::XrcdLife> ToLife(v1::XrcdLife life) {
  switch (life) {
    case v1::XRCD_LIFE_UNSPECIFIED:
    case v1::XRCD_LIFE_LEASES:
      return core::XrcdLife::kLeases;
    case v1::XRCD_LIFE_PERSISTENT:
      return core::XrcdLife::kPersistent;
    default:
      return UnknownEnum("life", life);
  }
}

absl::StatusOr<core::QpLife> ToLife(v1::QpLife life) {
  switch (life) {
    case v1::QP_LIFE_UNSPECIFIED:
    case v1::QP_LIFE_HOLDERS:
      return core::QpLife::kHolders;
    case v1::QP_LIFE_DOMAIN:
      return core::QpLife::kDomain;
    default:
      return UnknownEnum("life", life);
  }
}

absl::StatusOr<verbs::QpState> ToState(absl::string_view field, v1::QpState state) {
  switch (state) {
    case v1::QP_STATE_RESET:
      return verbs::QpState::kReset;
    case v1::QP_STATE_INIT:
      return verbs::QpState::kInit;
    case v1::QP_STATE_RTR:
      return verbs::QpState::kRtr;
    case v1::QP_STATE_RTS:
      return verbs::QpState::kRts;
    case v1::QP_STATE_SQD:
      return verbs::QpState::kSqd;
    case v1::QP_STATE_SQE:
      return verbs::QpState::kSqe;
    case v1::QP_STATE_ERR:
      return verbs::QpState::kErr;
    default:
      return UnknownEnum(field, state);
  }
}

uint32_t ToBits(const v1::AccessFlags& flags) {
  return (flags.local_write() ? verbs::kAccessLocalWrite : 0u) |
         (flags.remote_write() ? verbs::kAccessRemoteWrite : 0u) |
         (flags.remote_read() ? verbs::kAccessRemoteRead : 0u) |
         (flags.remote_atomic() ? verbs::kAccessRemoteAtomic : 0u);
}

absl::StatusOr<verbs::Gid> ToGid(absl::string_view field, const std::string& bytes) {
  verbs::Gid gid;
  if (bytes.size() != gid.size()) {
    return InvalidField(field, absl::StrCat("a GID has 16 bytes, not ", bytes.size()));
  }
  std::copy(bytes.begin(), bytes.end(), gid.begin());
  return gid;
}

absl::Status CheckMtu(absl::string_view field, uint32_t bytes) {
  if (verbs::IsPathMtu(bytes)) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(bytes, " is none of 256, 512, 1024, 2048, 4096"));
}

absl::Status SetRoute(const v1::GlobalRoute& route, core::Path& path) {
  constexpr uint32_t kDefaultHops = 64;
  absl::StatusOr<verbs::Gid> dgid = ToGid("path.global_route.dgid", route.dgid());
  QPB_RETURN_IF_ERROR(dgid.status());
  QPB_RETURN_IF_ERROR(CheckRange("path.global_route.hop_limit", route.hop_limit(), 0, 255));
  QPB_RETURN_IF_ERROR(CheckRange("path.global_route.traffic_class", route.traffic_class(), 0, 255));
  QPB_RETURN_IF_ERROR(
      CheckRange("path.global_route.flow_label", route.flow_label(), 0, (1u << 20) - 1));
  path.av.is_global = true;
  path.av.dgid = *dgid;
  path.av.hop_limit =
      static_cast<uint8_t>(route.hop_limit() == 0 ? kDefaultHops : route.hop_limit());
  path.av.traffic_class = static_cast<uint8_t>(route.traffic_class());
  path.av.flow_label = route.flow_label();
  if (route.sgid().gid_case() == v1::SourceGid::kValue) {
    absl::StatusOr<verbs::Gid> sgid = ToGid("path.global_route.sgid.value", route.sgid().value());
    QPB_RETURN_IF_ERROR(sgid.status());
    path.sgid = *sgid;
  } else {
    QPB_RETURN_IF_ERROR(CheckRange("path.global_route.sgid.index", route.sgid().index(), 0, 255));
    path.av.sgid_index = static_cast<uint8_t>(route.sgid().index());
  }
  return absl::OkStatus();
}

absl::StatusOr<core::Path> ToPath(const v1::Path& request) {
  core::Path path;
  QPB_RETURN_IF_ERROR(CheckRange("path.dlid", request.dlid(), 0, 0xbfff));
  QPB_RETURN_IF_ERROR(CheckRange("path.service_level", request.service_level(), 0, 15));
  QPB_RETURN_IF_ERROR(CheckRange("path.source_path_bits", request.source_path_bits(), 0, 127));
  if (!verbs::IsNamedRate(request.rate_mbps())) {
    return InvalidField("path.rate_mbps",
                        absl::StrCat(request.rate_mbps(), " is no rate that InfiniBand names"));
  }
  path.av.dlid = static_cast<uint16_t>(request.dlid());
  path.av.service_level = static_cast<uint8_t>(request.service_level());
  path.av.source_path_bits = static_cast<uint8_t>(request.source_path_bits());
  path.av.rate_mbps = request.rate_mbps();
  if (request.has_global_route()) QPB_RETURN_IF_ERROR(SetRoute(request.global_route(), path));
  return path;
}

// Takes over one optional attribute, with its bit, if it is there and in range.
template <class Member>
absl::Status SetAttribute(absl::string_view name, std::optional<uint32_t> value, uint32_t least,
                          uint32_t most, uint32_t bit, Member& member, uint32_t& mask) {
  if (!value) return absl::OkStatus();
  QPB_RETURN_IF_ERROR(CheckRange(absl::StrCat("attributes.", name), *value, least, most));
  member = static_cast<Member>(*value);
  mask |= bit;
  return absl::OkStatus();
}

#define QPB_OPTIONAL(message, name) \
  ((message).has_##name() ? std::optional<uint32_t>((message).name()) : std::nullopt)

absl::StatusOr<core::QpChange> ToChange(const v1::QpAttributes& request) {
  core::QpChange change;
  verbs::QpAttributes& to = change.attributes;
  uint32_t& mask = change.mask;
  if (request.has_state()) {
    absl::StatusOr<verbs::QpState> state = ToState("attributes.state", request.state());
    QPB_RETURN_IF_ERROR(state.status());
    to.state = *state;
    mask |= verbs::kQpAttrState;
  }
  if (request.has_access()) {
    to.access = ToBits(request.access());
    mask |= verbs::kQpAttrAccessFlags;
  }
  if (request.has_path()) {
    absl::StatusOr<core::Path> path = ToPath(request.path());
    QPB_RETURN_IF_ERROR(path.status());
    change.path = *std::move(path);
    mask |= verbs::kQpAttrAv;
  }
  if (request.has_path_mtu()) {
    QPB_RETURN_IF_ERROR(CheckMtu("attributes.path_mtu", request.path_mtu()));
    to.path_mtu = request.path_mtu();
    mask |= verbs::kQpAttrPathMtu;
  }
  QPB_RETURN_IF_ERROR(
      SetAttribute("port", QPB_OPTIONAL(request, port), 1, 255, verbs::kQpAttrPort, to.port, mask));
  QPB_RETURN_IF_ERROR(SetAttribute("pkey", QPB_OPTIONAL(request, pkey), 1, 0xffff,
                                   verbs::kQpAttrPkeyIndex, change.pkey, mask));
  QPB_RETURN_IF_ERROR(SetAttribute("dest_qp_num", QPB_OPTIONAL(request, dest_qp_num), 1, kMax24Bits,
                                   verbs::kQpAttrDestQpn, to.dest_qp_num, mask));
  QPB_RETURN_IF_ERROR(SetAttribute("rq_psn", QPB_OPTIONAL(request, rq_psn), 0, kMax24Bits,
                                   verbs::kQpAttrRqPsn, to.rq_psn, mask));
  QPB_RETURN_IF_ERROR(SetAttribute("sq_psn", QPB_OPTIONAL(request, sq_psn), 0, kMax24Bits,
                                   verbs::kQpAttrSqPsn, to.sq_psn, mask));
  QPB_RETURN_IF_ERROR(SetAttribute("max_dest_rd_atomic", QPB_OPTIONAL(request, max_dest_rd_atomic),
                                   0, 255, verbs::kQpAttrMaxDestRdAtomic, to.max_dest_rd_atomic,
                                   mask));
  QPB_RETURN_IF_ERROR(SetAttribute("min_rnr_timer", QPB_OPTIONAL(request, min_rnr_timer), 0,
                                   kMax5Bits, verbs::kQpAttrMinRnrTimer, to.min_rnr_timer, mask));
  QPB_RETURN_IF_ERROR(SetAttribute("timeout", QPB_OPTIONAL(request, timeout), 0, kMax5Bits,
                                   verbs::kQpAttrTimeout, to.timeout, mask));
  return change;
}

}  // namespace

absl::StatusOr<core::OpenXrcdCall> ToCall(const v1::OpenXrcdRequest& request,
                                          const core::Caller& caller) {
  core::OpenXrcdCall call;
  QPB_RETURN_IF_ERROR(Read(ToTag(request, request.request_id()), call.request));
  if (request.device().empty()) return MissingField("device");
  absl::StatusOr<std::string> device = core::ParseDeviceName("device", request.device());
  QPB_RETURN_IF_ERROR(device.status());
  if (request.name().empty()) return MissingField("name");
  if (!core::IsXrcdName(request.name())) {
    return InvalidField(
        "name", "1 to 64 characters of [A-Za-z0-9._-] are allowed, not beginning with a dot");
  }
  call.key = {*std::move(device),
              request.has_owner_uid() ? request.owner_uid() : caller.identity.uid, request.name()};
  call.create = request.create();
  call.exclusive = request.exclusive();
  if ((request.mode() & ~0666u) != 0) {
    return InvalidField("mode", "only the bits of 0666 are allowed");
  }
  call.mode = request.mode() == 0 ? 0600 : request.mode();
  if (request.has_gid()) call.gid = request.gid();
  if (request.member_uids_size() > kMaxMembers) {
    return InvalidField("member_uids", absl::StrCat("at most ", kMaxMembers, " are allowed"));
  }
  call.members.assign(request.member_uids().begin(), request.member_uids().end());
  QPB_RETURN_IF_ERROR(Read(ToLife(request.life()), call.life));
  return call;
}

absl::StatusOr<core::CreateQpCall> ToCall(const v1::CreateQpRequest& request) {
  core::CreateQpCall call;
  QPB_RETURN_IF_ERROR(ReadTagAndXrcd(request, call));
  QPB_RETURN_IF_ERROR(CheckKey(request.key()));
  call.key = request.key();
  if (request.exclusive() && call.key.empty()) return MissingField("key");
  call.exclusive = request.exclusive();
  QPB_RETURN_IF_ERROR(Read(ToLife(request.life()), call.life));
  QPB_RETURN_IF_ERROR(CheckRange("port", request.port(), 0, 255));
  call.port = request.port() == 0 ? uint8_t{1} : static_cast<uint8_t>(request.port());
  return call;
}

absl::StatusOr<core::OpenQpCall> ToCall(const v1::OpenQpRequest& request) {
  core::OpenQpCall call;
  QPB_RETURN_IF_ERROR(ReadTagAndXrcd(request, call));
  switch (request.which_case()) {
    case v1::OpenQpRequest::kQpNum:
      QPB_RETURN_IF_ERROR(CheckRange("qp_num", request.qp_num(), 1, kMax24Bits));
      call.number = request.qp_num();
      return call;
    case v1::OpenQpRequest::kKey:
      if (request.key().empty()) return MissingField("key");
      QPB_RETURN_IF_ERROR(CheckKey(request.key()));
      call.key = request.key();
      return call;
    default:
      return MissingField("qp_num or key");
  }
}

absl::StatusOr<core::ModifyQpCall> ToCall(const v1::ModifyQpRequest& request) {
  core::ModifyQpCall call;
  QPB_RETURN_IF_ERROR(Read(core::ParseQpName("qp", request.qp()), call.qp));
  QPB_RETURN_IF_ERROR(Read(ToChange(request.attributes()), call.change));
  if (call.change.mask == 0) return MissingField("attributes");
  return call;
}

absl::StatusOr<core::ConnectQpCall> ToCall(const v1::ConnectQpRequest& request) {
  core::ConnectQpCall call;
  QPB_RETURN_IF_ERROR(Read(core::ParseQpName("qp", request.qp()), call.qp));
  if (!request.has_remote()) return MissingField("remote");
  QPB_RETURN_IF_ERROR(CheckRange("remote.qp_num", request.remote().qp_num(), 1, kMax24Bits));
  QPB_RETURN_IF_ERROR(CheckRange("remote.psn", request.remote().psn(), 0, kMax24Bits));
  call.remote_qp_num = request.remote().qp_num();
  call.remote_psn = request.remote().psn();
  QPB_RETURN_IF_ERROR(Read(ToPath(request.remote().path()), call.path));
  QPB_RETURN_IF_ERROR(CheckRange("port", request.port(), 0, 255));
  if (request.port() != 0) call.port = static_cast<uint8_t>(request.port());
  if (request.path_mtu() != 0) QPB_RETURN_IF_ERROR(CheckMtu("path_mtu", request.path_mtu()));
  call.path_mtu = request.path_mtu();
  if (request.has_access()) call.access = ToBits(request.access());
  if (request.has_pkey()) {
    QPB_RETURN_IF_ERROR(CheckRange("pkey", request.pkey(), 1, 0xffff));
    call.pkey = static_cast<uint16_t>(request.pkey());
  }
  if (request.has_psn()) {
    QPB_RETURN_IF_ERROR(CheckRange("psn", request.psn(), 0, kMax24Bits));
    call.psn = request.psn();
  }
  if (request.has_max_dest_rd_atomic()) {
    QPB_RETURN_IF_ERROR(CheckRange("max_dest_rd_atomic", request.max_dest_rd_atomic(), 0, 255));
    call.max_dest_rd_atomic = static_cast<uint8_t>(request.max_dest_rd_atomic());
  }
  if (request.has_min_rnr_timer()) {
    QPB_RETURN_IF_ERROR(CheckRange("min_rnr_timer", request.min_rnr_timer(), 0, kMax5Bits));
    call.min_rnr_timer = static_cast<uint8_t>(request.min_rnr_timer());
  }
  if (request.has_timeout()) {
    QPB_RETURN_IF_ERROR(CheckRange("timeout", request.timeout(), 0, kMax5Bits));
    call.timeout = static_cast<uint8_t>(request.timeout());
  }
  return call;
}

absl::Status CheckNonce(const v1::AttachRequest& request) {
  constexpr size_t kNonceBytes = 16;
  if (request.nonce().empty()) return MissingField("nonce");
  if (request.nonce().size() == kNonceBytes) return absl::OkStatus();
  return InvalidField("nonce",
                      absl::StrCat("has ", kNonceBytes, " bytes, not ", request.nonce().size()));
}

absl::Status CheckKeyPrefix(const v1::ListDomainQpsRequest& request) {
  if (core::IsQpKey(request.key_prefix())) return absl::OkStatus();
  return InvalidField("key_prefix", "0 to 128 characters of [A-Za-z0-9._:/-] are allowed");
}

}  // namespace qpbroker::rpc
