// SPDX-License-Identifier: Apache-2.0
// The kernel gives one errno to many causes, and each call gives it another meaning: EAGAIN is "no
// such domain" from open_xrcd, but "the RDMA cgroup's limit" from everything that makes an object.
#include "daemon/verbs/verbs_calls.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace qpbroker::verbs {
namespace {

constexpr uint32_t kEveryAttribute = kQpAttrState | kQpAttrAccessFlags | kQpAttrPkeyIndex |
                                     kQpAttrPort | kQpAttrAv | kQpAttrPathMtu | kQpAttrTimeout |
                                     kQpAttrRqPsn | kQpAttrMinRnrTimer | kQpAttrSqPsn |
                                     kQpAttrMaxDestRdAtomic | kQpAttrDestQpn;

bool MakesObject(Call call) {
  return call == Call::kOpenDevice || call == Call::kOpenXrcd || call == Call::kCreateQp ||
         call == Call::kOpenQp;
}

bool NeedsXrc(Call call) {
  return call == Call::kOpenXrcd || call == Call::kCreateQp || call == Call::kOpenQp;
}

// What an errno means whatever the call, unless the call says otherwise.
v1::Reason CommonReason(Call call, int errno_value) {
  switch (errno_value) {
    case EIO:
    case ENODEV:
    case ENXIO:
      return v1::REASON_DEVICE_GONE;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return v1::REASON_DAEMON_LIMIT;
    case EAGAIN:  // The RDMA cgroup's limit of objects.
      return MakesObject(call) ? v1::REASON_DAEMON_LIMIT : v1::REASON_DEVICE_ERROR;
    case EOPNOTSUPP:
    case ENOSYS:
      return NeedsXrc(call) ? v1::REASON_XRC_NOT_SUPPORTED : v1::REASON_DEVICE_ERROR;
    default:
      return v1::REASON_DEVICE_ERROR;
  }
}

bool MeansDeviceFull(int errno_value) { return errno_value == ENOMEM || errno_value == ENOSPC; }

v1::Reason ReasonOfCall(Call call, int errno_value) {
  switch (call) {
    case Call::kOpenDevice:
      if (errno_value == ENODEV || errno_value == ENXIO) return v1::REASON_DEVICE_NOT_FOUND;
      break;
    case Call::kCloseXrcd:
      if (errno_value == EBUSY) return v1::REASON_XRCD_BUSY;
      break;
    case Call::kCreateQp:
      if (MeansDeviceFull(errno_value)) return v1::REASON_DEVICE_LIMIT;
      break;
    case Call::kOpenQp:
      if (errno_value == EINVAL) return v1::REASON_QP_NOT_FOUND;
      break;
    case Call::kModifyQp:
      if (errno_value == EINVAL) return v1::REASON_INVALID_TRANSITION;
      // The GID that the index named is no longer there (an address was removed).
      if (errno_value == ENODATA) return v1::REASON_INVALID_FIELD;
      break;
    default:
      break;
  }
  return CommonReason(call, errno_value);
}

absl::Status BadModifyField(absl::string_view field) {
  return ErrnoError(v1::REASON_INVALID_FIELD, EINVAL, CallName(Call::kModifyQp),
                    {{"field", std::string(field)}});
}

}  // namespace

absl::string_view CallName(Call call) {
  switch (call) {
    case Call::kListDevices:
      return "ibv_get_device_list";
    case Call::kOpenDevice:
      return "ibv_open_device";
    case Call::kQueryDevice:
      return "ibv_query_device";
    case Call::kQueryPort:
      return "ibv_query_port";
    case Call::kOpenXrcd:
      return "ibv_open_xrcd";
    case Call::kCloseXrcd:
      return "ibv_close_xrcd";
    case Call::kCreateQp:
      return "ibv_create_qp_ex";
    case Call::kOpenQp:
      return "ibv_open_qp";
    case Call::kModifyQp:
      return "ibv_modify_qp";
    case Call::kQueryQp:
      return "ibv_query_qp";
    case Call::kDestroyQp:
      return "ibv_destroy_qp";
    case Call::kGetEvent:
      return "ibv_get_async_event";
  }
  return "verbs";
}

std::string QpNumberText(uint32_t qp_num) { return absl::StrFormat("0x%06x", qp_num); }

absl::Status CallError(Call call, int errno_value, ErrorMetadata metadata) {
  v1::Reason reason = ReasonOfCall(call, errno_value);
  if (call == Call::kModifyQp && errno_value == ENODATA) {
    metadata.emplace_back("field", "sgid_index");
  }
  return ErrnoError(reason, errno_value, CallName(call), std::move(metadata));
}

absl::Status OpenXrcdError(OpenXrcdMode mode, int errno_value, ErrorMetadata metadata) {
  v1::Reason reason = CommonReason(Call::kOpenXrcd, errno_value);
  if (mode == OpenXrcdMode::kExisting && errno_value == EAGAIN) {
    reason = v1::REASON_XRCD_NOT_FOUND;
  } else if (mode == OpenXrcdMode::kCreateExclusive && errno_value == EINVAL) {
    reason = v1::REASON_XRCD_EXISTS;
  } else if (mode != OpenXrcdMode::kExisting && MeansDeviceFull(errno_value)) {
    reason = v1::REASON_DEVICE_LIMIT;
  } else if (errno_value == EBADF) {
    reason = v1::REASON_INVALID_FIELD;
    metadata.emplace_back("field", "fd");
  }
  return ErrnoError(reason, errno_value, CallName(Call::kOpenXrcd), std::move(metadata));
}

absl::StatusOr<struct stat> StatDomainFile(int fd) {
  struct stat file = {};
  int errno_value = 0;
  if (fstat(fd, &file) != 0) {
    errno_value = errno;
  } else if (!S_ISREG(file.st_mode)) {
    errno_value = EINVAL;
  }
  if (errno_value == 0) return file;
  return ErrnoError(v1::REASON_INVALID_FIELD, errno_value, CallName(Call::kOpenXrcd),
                    {{"field", "fd"}});
}

absl::Status CheckModifyArguments(const QpAttributes& attributes, uint32_t mask) {
  if ((mask & ~kEveryAttribute) != 0) {
    return ErrnoError(v1::REASON_INVALID_TRANSITION, EINVAL, CallName(Call::kModifyQp),
                      {{"attribute", absl::StrFormat("mask 0x%x", mask & ~kEveryAttribute)}});
  }
  if ((mask & kQpAttrState) != 0 && attributes.state > QpState::kErr)
    return BadModifyField("state");
  if ((mask & kQpAttrPathMtu) != 0 && !IsPathMtu(attributes.path_mtu))
    return BadModifyField("path_mtu");
  if ((mask & kQpAttrAv) != 0 && !IsNamedRate(attributes.av.rate_mbps)) {
    return BadModifyField("rate_mbps");
  }
  return absl::OkStatus();
}

}  // namespace qpbroker::verbs
