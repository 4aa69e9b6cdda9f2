// SPDX-License-Identifier: Apache-2.0
#include "common/error_reason.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace qpbroker {
namespace {

constexpr absl::string_view kTypeUrl = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr absl::string_view kDomain = "qpbroker";

using absl::StatusCode;

// In the order of the enum, without gaps: ReasonEntryOf indexes it.
constexpr ReasonEntry kTable[] = {
    {v1::REASON_INVALID_FIELD, "INVALID_FIELD", StatusCode::kInvalidArgument, EINVAL,
     "a field has a value that is not allowed", "metadata \"field\" names it"},
    {v1::REASON_MISSING_FIELD, "MISSING_FIELD", StatusCode::kInvalidArgument, EINVAL,
     "a required field is missing", "metadata \"field\" names it"},
    {v1::REASON_UNKNOWN_ENUM, "UNKNOWN_ENUM", StatusCode::kInvalidArgument, EINVAL,
     "an enum value that this daemon does not know", "the client may be newer than the daemon"},
    {v1::REASON_REQUEST_ID_REUSED, "REQUEST_ID_REUSED", StatusCode::kInvalidArgument, EINVAL,
     "the request_id was used before, for another request", "use a fresh UUID for each request"},
    {v1::REASON_REQUEST_IN_PROGRESS, "REQUEST_IN_PROGRESS", StatusCode::kAborted, EAGAIN,
     "a request with this request_id is still being carried out", "retry for its answer"},
    {v1::REASON_PERMISSION_DENIED, "PERMISSION_DENIED", StatusCode::kPermissionDenied, EACCES,
     "you may not do this, or it does not exist", "ask the domain's owner to add you to its group"},
    {v1::REASON_DEVICE_NOT_FOUND, "DEVICE_NOT_FOUND", StatusCode::kNotFound, ENODEV,
     "no device of that name", "ListDevices names those there are"},
    {v1::REASON_XRC_NOT_SUPPORTED, "XRC_NOT_SUPPORTED", StatusCode::kFailedPrecondition, EOPNOTSUPP,
     "the device or its driver has no XRC", "use a device with XRC (mlx4, mlx5, hns)"},
    {v1::REASON_DEVICE_GONE, "DEVICE_GONE", StatusCode::kUnavailable, ENODEV,
     "the device was removed or suffered a fatal error", "open again when ListDevices shows it"},
    {v1::REASON_XRCD_NOT_FOUND, "XRCD_NOT_FOUND", StatusCode::kNotFound, ENOENT,
     "no domain of that owner and name", "create it with `create`"},
    {v1::REASON_XRCD_EXISTS, "XRCD_EXISTS", StatusCode::kAlreadyExists, EEXIST,
     "the domain exists already", "leave `exclusive` out to open it"},
    {v1::REASON_XRCD_BUSY, "XRCD_BUSY", StatusCode::kFailedPrecondition, EBUSY,
     "the domain is still in use", "the metadata says by what"},
    {v1::REASON_QP_NOT_FOUND, "QP_NOT_FOUND", StatusCode::kNotFound, ENOENT,
     "no such QP in this domain", "ListDomainQps names those there are"},
    {v1::REASON_QP_EXISTS, "QP_EXISTS", StatusCode::kAlreadyExists, EEXIST,
     "a QP with this key exists already", "leave `exclusive` out to open it"},
    {v1::REASON_INVALID_TRANSITION, "INVALID_TRANSITION", StatusCode::kInvalidArgument, EINVAL,
     "the InfiniBand state table does not allow this change",
     "metadata \"transition\" and \"attribute\" say which part of it"},
    {v1::REASON_ALREADY_CONNECTED, "ALREADY_CONNECTED", StatusCode::kFailedPrecondition, EISCONN,
     "the QP is connected to another endpoint", "metadata names the present one"},
    {v1::REASON_LEASE_NOT_FOUND, "LEASE_NOT_FOUND", StatusCode::kNotFound, ENOENT,
     "you hold no such lease", "it may have been closed before"},
    {v1::REASON_STALE_GENERATION, "STALE_GENERATION", StatusCode::kFailedPrecondition, ESTALE,
     "the name was given out before the daemon restarted", "open the object again by its name"},
    {v1::REASON_NOT_ATTACHED, "NOT_ATTACHED", StatusCode::kFailedPrecondition, ENOTCONN,
     "this connection has no session to deliver descriptors to", "call Attach first"},
    {v1::REASON_ALREADY_ATTACHED, "ALREADY_ATTACHED", StatusCode::kFailedPrecondition, EISCONN,
     "this connection is attached to a session already", "use a connection for each session"},
    {v1::REASON_BAD_NONCE, "BAD_NONCE", StatusCode::kPermissionDenied, EACCES,
     "the nonce does not belong to a waiting session of yours",
     "connect to session.sock and present the nonce of its greeting, once"},
    {v1::REASON_SESSION_GONE, "SESSION_GONE", StatusCode::kUnavailable, ECONNRESET,
     "the session has ended", "connect again"},
    {v1::REASON_SESSION_BACKLOG, "SESSION_BACKLOG", StatusCode::kResourceExhausted, EAGAIN,
     "the client does not read its session socket", "read deliveries before asking for more"},
    {v1::REASON_QUOTA_EXCEEDED, "QUOTA_EXCEEDED", StatusCode::kResourceExhausted, EDQUOT,
     "your quota is used up", "close what you do not need, or ask the administrator"},
    {v1::REASON_DAEMON_LIMIT, "DAEMON_LIMIT", StatusCode::kResourceExhausted, ENFILE,
     "the daemon is out of descriptors or memory", "the administrator should raise its limits"},
    {v1::REASON_DEVICE_LIMIT, "DEVICE_LIMIT", StatusCode::kResourceExhausted, ENOMEM,
     "the device has no room for a further object", "destroy QPs that are not needed"},
    {v1::REASON_DEVICE_ERROR, "DEVICE_ERROR", StatusCode::kInternal, EIO, "the device refused",
     "metadata \"call\" and \"errno\"; the kernel log may say more"},
    {v1::REASON_BAD_PAGE_TOKEN, "BAD_PAGE_TOKEN", StatusCode::kInvalidArgument, EINVAL,
     "the page token is not one of this list", "begin again without a token"},
    {v1::REASON_SHUTTING_DOWN, "SHUTTING_DOWN", StatusCode::kUnavailable, ESHUTDOWN,
     "the daemon is stopping", "connect again in a moment"},
    {v1::REASON_INTERNAL, "INTERNAL", StatusCode::kInternal, EIO, "a defect of qpbroker",
     "please report it with the daemon's log"},
    {v1::REASON_FD_NOT_DELIVERED, "FD_NOT_DELIVERED", StatusCode::kResourceExhausted, EMFILE,
     "the descriptors did not arrive: file limit of this process, or a security policy",
     "raise RLIMIT_NOFILE or look into the audit log"},
    {v1::REASON_DAEMON_UNREACHABLE, "DAEMON_UNREACHABLE", StatusCode::kUnavailable, ECONNREFUSED,
     "no daemon answers", "is qpbrokerd running, and is its directory mounted here?"},
    {v1::REASON_PROTOCOL_VIOLATION, "PROTOCOL_VIOLATION", StatusCode::kInternal, EPROTO,
     "the peer broke the session protocol", "client and daemon may be of different versions"},
    {v1::REASON_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", StatusCode::kDeadlineExceeded, ETIMEDOUT,
     "no answer within the deadline", "the device may be slow; try a longer one"},
};

constexpr bool TableIsInOrder() {
  int next = 1;
  for (const ReasonEntry& entry : kTable) {
    if (entry.reason != next++) return false;
  }
  return next == v1::Reason_ARRAYSIZE;
}
static_assert(TableIsInOrder(), "kTable must list every Reason by number");

std::string ErrnoName(int errno_value) {
  const char* name = strerrorname_np(errno_value);
  return name != nullptr ? name : absl::StrCat("errno ", errno_value);
}

}  // namespace

absl::Span<const ReasonEntry> ReasonTable() { return kTable; }

const ReasonEntry& ReasonEntryOf(v1::Reason reason) {
  if (reason <= v1::REASON_UNSPECIFIED || reason >= v1::Reason_ARRAYSIZE) {
    reason = v1::REASON_INTERNAL;
  }
  return kTable[reason - 1];
}

absl::Status MakeError(v1::Reason reason, absl::string_view message,
                       const ErrorMetadata& metadata) {
  const ReasonEntry& entry = ReasonEntryOf(reason);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(entry.name));
  info.set_domain(std::string(kDomain));
  auto& map = *info.mutable_metadata();
  map["hint"] = std::string(entry.hint);
  for (const auto& [key, value] : metadata) map[std::string(key)] = value;
  absl::Status status(entry.code, message.empty() ? entry.text : message);
  SetErrorInfo(info, status);
  return status;
}

absl::Status ErrnoError(v1::Reason reason, int errno_value, absl::string_view call,
                        ErrorMetadata metadata) {
  metadata.emplace_back("call", call);
  metadata.emplace_back("errno", ErrnoName(errno_value));
  const ReasonEntry& entry = ReasonEntryOf(reason);
  const char* text = strerrordesc_np(errno_value);
  return MakeError(reason,
                   absl::StrCat(entry.text, " (", call, ": ",
                                text != nullptr ? text : ErrnoName(errno_value), ")"),
                   metadata);
}

std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kTypeUrl);
  google::rpc::ErrorInfo info;
  if (!payload || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return info;
}

void SetErrorInfo(const google::rpc::ErrorInfo& info, absl::Status& status) {
  status.SetPayload(kTypeUrl, absl::Cord(info.SerializeAsString()));
}

v1::Reason ReasonOf(const absl::Status& status) {
  std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  v1::Reason reason = v1::REASON_UNSPECIFIED;
  if (info && info->domain() == kDomain) {
    v1::Reason_Parse(absl::StrCat("REASON_", info->reason()), &reason);
  }
  return reason;
}

std::string ErrnoNameOf(const absl::Status& status) {
  std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  if (!info) return {};
  auto found = info->metadata().find("errno");
  return found == info->metadata().end() ? std::string() : found->second;
}

}  // namespace qpbroker
