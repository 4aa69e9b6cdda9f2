// SPDX-License-Identifier: Apache-2.0
// Handles of shared QPs, and the two ways to let go of one. A QP that was created here is destroyed
// by ibv_destroy_qp on any provider. For a handle from ibv_open_qp that is true of libmlx4 only;
// libmlx5 crashes. There the handle gets a context of its own, in which it is the one QP, and
// closing the context makes the kernel release it. The provider's few hundred bytes of user memory
// for that QP and its domain are lost each time: only the provider's own destructors, which must
// not run, could free them.
#include "daemon/verbs/ibv_xrcd.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "common/error_reason.h"
#include "daemon/verbs/ibv_convert.h"
#include "daemon/verbs/ibv_reset.h"
#include "daemon/verbs/verbs_calls.h"

namespace qpbroker::verbs {
namespace {

int OpenFlags(OpenXrcdMode mode) {
  switch (mode) {
    case OpenXrcdMode::kExisting:
      return 0;
    case OpenXrcdMode::kCreate:
      return O_CREAT;
    case OpenXrcdMode::kCreateExclusive:
      return O_CREAT | O_EXCL;
  }
  return 0;
}

// These three set errno before the call: a call that libibverbs itself refuses may return null
// without.
ibv_xrcd* OpenXrcdOf(ibv_context* context, int fd, OpenXrcdMode mode) {
  ibv_xrcd_init_attr attr = {};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = fd;
  attr.oflags = OpenFlags(mode);
  errno = EOPNOTSUPP;
  return ibv_open_xrcd(context, &attr);
}

ibv_qp* CreateQpIn(ibv_xrcd* xrcd) {
  // Nothing else may be set: an XRC target has no protection domain, CQ, SRQ or work requests.
  ibv_qp_init_attr_ex attr = {};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attr.xrcd = xrcd;
  errno = EOPNOTSUPP;
  return ibv_create_qp_ex(xrcd->context, &attr);
}

ibv_qp* OpenQpIn(ibv_xrcd* xrcd, uint32_t qp_num) {
  ibv_qp_open_attr attr = {};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = qp_num;
  attr.xrcd = xrcd;
  attr.qp_type = IBV_QPT_XRC_RECV;
  errno = EOPNOTSUPP;
  return ibv_open_qp(xrcd->context, &attr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<IbvXrcd>> IbvXrcd::Open(const IbvContext& context, int fd,
                                                       OpenXrcdMode mode) {
  UniqueFd file;
  if (!context.provider().opened_handles_are_safe) {
    file.reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!file) return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "fcntl");
  }
  ibv_xrcd* xrcd = OpenXrcdOf(context.get(), fd, mode);
  if (xrcd == nullptr) return OpenXrcdError(mode, errno, {{"device", context.device_name()}});
  return std::unique_ptr<IbvXrcd>(new IbvXrcd(context, xrcd, std::move(file)));
}

IbvXrcd::~IbvXrcd() { Close().IgnoreError(); }

absl::StatusOr<std::unique_ptr<TargetQp>> IbvXrcd::CreateTargetQp() {
  ibv_qp* qp = CreateQpIn(xrcd_);
  if (qp == nullptr) {
    return CallError(Call::kCreateQp, errno, {{"device", context_.device_name()}});
  }
  return std::make_unique<IbvTargetQp>(context_, qp, nullptr);
}

absl::StatusOr<std::unique_ptr<TargetQp>> IbvXrcd::OpenTargetQp(uint32_t qp_num) {
  if (!context_.provider().opened_handles_are_safe) return OpenInPrivateContext(qp_num);
  ibv_qp* qp = OpenQpIn(xrcd_, qp_num);
  if (qp == nullptr) {
    return CallError(Call::kOpenQp, errno,
                     {{"device", context_.device_name()}, {"qp_num", QpNumberText(qp_num)}});
  }
  return std::make_unique<IbvTargetQp>(context_, qp, nullptr);
}

absl::StatusOr<std::unique_ptr<TargetQp>> IbvXrcd::OpenInPrivateContext(uint32_t qp_num) {
  absl::StatusOr<std::unique_ptr<IbvContext>> opened =
      IbvContext::Open(context_.device_name(), OpenedHandles::kPrivateContext);
  if (!opened.ok()) {
    // It was there when the domain was opened.
    if (ReasonOf(opened.status()) != v1::REASON_DEVICE_NOT_FOUND) return opened.status();
    return CallError(Call::kOpenQp, ENODEV, {{"device", context_.device_name()}});
  }
  std::unique_ptr<IbvContext> context = *std::move(opened);
  // Nobody would read them, and the kernel's queue has no bound.
  if (absl::Status status = context->DiscardEvents(); !status.ok()) return status;

  ibv_xrcd* xrcd = OpenXrcdOf(context->get(), file_.get(), OpenXrcdMode::kExisting);
  if (xrcd == nullptr) {
    // The domain is open here, so "no such domain" can only mean another device of the same name.
    int errno_value = errno == EAGAIN ? EIO : errno;
    return OpenXrcdError(OpenXrcdMode::kExisting, errno_value,
                         {{"device", context_.device_name()}});
  }
  ibv_qp* qp = OpenQpIn(xrcd, qp_num);
  if (qp == nullptr) {
    absl::Status status =
        CallError(Call::kOpenQp, errno,
                  {{"device", context_.device_name()}, {"qp_num", QpNumberText(qp_num)}});
    ibv_close_xrcd(xrcd);
    return status;
  }
  return std::make_unique<IbvTargetQp>(
      context_, qp, std::make_unique<PrivateHandle>(std::move(context), private_handles_));
}

absl::Status IbvXrcd::Close() {
  if (xrcd_ == nullptr) return absl::OkStatus();
  int error = IsBusyWithPrivateHandles() ? EBUSY : ErrnoOf(ibv_close_xrcd(xrcd_));
  if (error != 0) {
    return CallError(Call::kCloseXrcd, error, {{"device", context_.device_name()}});
  }
  xrcd_ = nullptr;
  file_.reset();
  return absl::OkStatus();
}

bool IbvXrcd::IsBusyWithPrivateHandles() const {
  if (private_handles_ == 0) return false;
  // Once the device is gone every close succeeds. Only a call into the kernel tells.
  ibv_device_attr attributes = {};
  return ErrnoOf(ibv_query_device(context_.get(), &attributes)) != EIO;
}

IbvTargetQp::~IbvTargetQp() { Destroy().IgnoreError(); }

absl::Status IbvTargetQp::Modify(const QpAttributes& attributes, uint32_t mask) {
  if (absl::Status status = CheckModifyArguments(attributes, mask); !status.ok()) return status;
  int error = 0;
  if (private_handle_ != nullptr && mask == kQpAttrState && attributes.state == QpState::kReset) {
    error = ResetOpenedQp(private_handle_->provider(), qp_);
  } else {
    ibv_qp_attr attr = ToIbv(attributes, mask);
    error = ErrnoOf(ibv_modify_qp(qp_, &attr, static_cast<int>(mask)));
  }
  return error == 0 ? absl::OkStatus() : Error(Call::kModifyQp, error);
}

absl::StatusOr<QpAttributes> IbvTargetQp::Query() {
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init_attr = {};
  constexpr int kEverything = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                              IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RQ_PSN |
                              IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                              IBV_QP_DEST_QPN;
  int error = ErrnoOf(ibv_query_qp(qp_, &attr, kEverything, &init_attr));
  if (error != 0) return Error(Call::kQueryQp, error);
  return FromIbv(attr);
}

absl::Status IbvTargetQp::Destroy() {
  if (qp_ == nullptr) return absl::OkStatus();
  if (private_handle_ != nullptr) {
    private_handle_.reset();
  } else {
    int error = ErrnoOf(ibv_destroy_qp(qp_));
    if (error != 0) return Error(Call::kDestroyQp, error);
  }
  qp_ = nullptr;
  return absl::OkStatus();
}

absl::Status IbvTargetQp::Error(Call call, int errno_value) const {
  return CallError(call, errno_value,
                   {{"device", context_.device_name()}, {"qp_num", QpNumberText(number_)}});
}

}  // namespace qpbroker::verbs
