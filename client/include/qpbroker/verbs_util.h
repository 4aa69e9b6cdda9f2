// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_VERBS_UTIL_H_
#define QPBROKER_VERBS_UTIL_H_

// From what the broker granted to what libibverbs works with. Header-only; link libibverbs.
//
//   qpbroker::Result<qpbroker::XrcdHandle> xrcd = qpbroker::OpenXrcdHandle(context, *domain);
//   ... ibv_create_srq_ex with .xrcd = xrcd->get() ...
//   qpbroker::Result<qpbroker::QpHandle> handle =
//       qpbroker::OpenQpHandle(context, *domain, qp->number());
//   ... ibv_modify_qp, ibv_query_qp with handle->get(); never ibv_destroy_qp ...
//
// A receiver needs the XrcdHandle, for its SRQs, and no QpHandle: the broker's lease keeps the QP.
// A QpHandle is for those who want to modify or query the QP without the broker, or to hold it
// beyond their lease.
//
// A handle is the kernel's own reference, apart from the lease: closing one does not close the
// other. Handles are independent of each other and may be destroyed in any order.
//
// Threads: as libibverbs; a handle is used by one thread at a time.

#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "qpbroker/client.h"
#include "qpbroker/error.h"

namespace qpbroker {

// Closes a context when it goes.
struct ContextCloser {
  void operator()(ibv_context* context) const { ibv_close_device(context); }
};
using ContextHandle = std::unique_ptr<ibv_context, ContextCloser>;

namespace internal {

// An error of the call `call`, which left `errno_value`.
inline Error VerbsError(ErrorCode code, std::string reason, std::string message, const char* call,
                        int errno_value) {
  Error error{.code = code, .reason = std::move(reason), .message = std::move(message)};
  error.message += std::string(" (") + call + ": " + std::strerror(errno_value) + ")";
  error.metadata["call"] = call;
  error.metadata["errno"] = std::to_string(errno_value);
  return error;
}

// The errors that any verbs call may give; the rest is the caller's to name.
inline Error CommonVerbsError(const char* call, int errno_value) {
  switch (errno_value) {
    case EOPNOTSUPP:
    case ENOSYS:
      return VerbsError(ErrorCode::kFailedPrecondition, "XRC_NOT_SUPPORTED",
                        "the device or its driver has no XRC", call, errno_value);
    case EACCES:
    case EPERM:
      return VerbsError(ErrorCode::kPermissionDenied, "PERMISSION_DENIED",
                        "the device may not be used by this user", call, errno_value);
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return VerbsError(ErrorCode::kResourceExhausted, "DEVICE_LIMIT",
                        "out of memory, descriptors or device resources", call, errno_value);
    case EIO:
    case ENODEV:
      return VerbsError(ErrorCode::kUnavailable, "DEVICE_GONE", "the device was removed", call,
                        errno_value);
    default:
      return VerbsError(ErrorCode::kInternal, "DEVICE_ERROR", "the device refused", call,
                        errno_value);
  }
}

// The shared object that `code` is in, without its folder: "libmlx5-rdmav34.so". May be empty.
inline std::string LibraryOf(const void* code) {
  Dl_info info{};
  if (code == nullptr || dladdr(code, &info) == 0 || info.dli_fname == nullptr) return {};
  std::string_view path = info.dli_fname;
  return std::string(path.substr(path.rfind('/') + 1));
}

// Whether ibv_destroy_qp on a handle from ibv_open_qp is known to close that handle and nothing
// else. libmlx5 crashes in it (seen with rdma-core 44). The provider is recognised by the library
// that its code is in, not by the device's name, which udev may have changed; what is not
// recognised (hns, a provider that is linked statically) is treated as libmlx5 is, which is right
// for all.
inline bool OpenedQpsCanBeDestroyed(std::string_view library) {
  return library.substr(0, 7) == "libmlx4";
}

// The code that polls completions is always the provider's own.
inline const void* ProviderCode(const ibv_context* context) {
  return reinterpret_cast<const void*>(context->ops.poll_cq);
}

// Where a user may not open the device's file, ibv_open_device takes 5 s to find out.
inline Result<void> CheckDeviceAccess(ibv_device* device) {
  std::string path = std::string("/dev/infiniband/") + device->dev_name;
  if (faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0 || errno == ENOENT) return {};
  Error error = CommonVerbsError("access", errno);
  error.metadata["path"] = path;
  error.hint = "ask for read and write permission on " + path;
  return error;
}

inline Result<ContextHandle> OpenContext(ibv_device* device) {
  if (Result<void> access = CheckDeviceAccess(device); !access.ok()) return access.error();
  errno = 0;
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) return CommonVerbsError("ibv_open_device", errno != 0 ? errno : EIO);
  return ContextHandle(context);
}

inline Result<ibv_xrcd*> OpenXrcd(ibv_context* context, const Xrcd& domain) {
  ibv_xrcd_init_attr attributes{};
  attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attributes.fd = domain.domain_fd();
  attributes.oflags = 0;  // The domain exists already: the daemon holds it.
  // fd -1 would not fail: it would make a private domain.
  if (attributes.fd < 0) {
    return Error{.code = ErrorCode::kFailedPrecondition,
                 .reason = "XRCD_NOT_FOUND",
                 .message = "this domain was closed before"};
  }
  errno = 0;  // Some failures return null and leave it alone.
  ibv_xrcd* xrcd = ibv_open_xrcd(context, &attributes);
  if (xrcd != nullptr) return xrcd;
  if (errno == EAGAIN) {
    return VerbsError(ErrorCode::kNotFound, "XRCD_NOT_FOUND",
                      "the domain is not on this device, or the daemon has closed it",
                      "ibv_open_xrcd", errno);
  }
  return CommonVerbsError("ibv_open_xrcd", errno != 0 ? errno : EINVAL);
}

inline Result<ibv_qp*> OpenQp(ibv_xrcd* xrcd, uint32_t qp_num) {
  ibv_qp_open_attr attributes{};
  attributes.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attributes.qp_num = qp_num;
  attributes.xrcd = xrcd;
  attributes.qp_type = IBV_QPT_XRC_RECV;
  errno = 0;
  ibv_qp* qp = ibv_open_qp(xrcd->context, &attributes);
  if (qp != nullptr) return qp;
  if (errno == EINVAL) {
    return VerbsError(ErrorCode::kNotFound, "QP_NOT_FOUND", "no such QP in this domain",
                      "ibv_open_qp", errno);
  }
  return CommonVerbsError("ibv_open_qp", errno != 0 ? errno : EINVAL);
}

}  // namespace internal

// Opens the device called `name`, with or without "devices/".
// Errors: DEVICE_NOT_FOUND, PERMISSION_DENIED, DEVICE_LIMIT, DEVICE_GONE, DEVICE_ERROR.
inline Result<ContextHandle> OpenDeviceContext(std::string_view name) {
  constexpr std::string_view kPrefix = "devices/";
  if (name.substr(0, kPrefix.size()) == kPrefix) name.remove_prefix(kPrefix.size());
  errno = 0;
  std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(ibv_get_device_list(nullptr),
                                                            ibv_free_device_list);
  if (list == nullptr) {
    return internal::CommonVerbsError("ibv_get_device_list", errno != 0 ? errno : EIO);
  }
  for (ibv_device** device = list.get(); *device != nullptr; ++device) {
    if (ibv_get_device_name(*device) == name) return internal::OpenContext(*device);
  }
  return Error{.code = ErrorCode::kNotFound,
               .reason = "DEVICE_NOT_FOUND",
               .message = "no RDMA device called " + std::string(name) + " is visible here",
               .metadata = {{"device", std::string(name)}}};
}

// An ibv_xrcd on the caller's context. Move-only.
class XrcdHandle {
 public:
  explicit XrcdHandle(ibv_xrcd* xrcd) : xrcd_(xrcd) {}
  XrcdHandle(XrcdHandle&& other) noexcept : xrcd_(std::exchange(other.xrcd_, nullptr)) {}
  XrcdHandle& operator=(XrcdHandle&& other) noexcept {
    XrcdHandle replaced(std::move(*this));
    xrcd_ = std::exchange(other.xrcd_, nullptr);
    return *this;
  }
  // Destroy the SRQs and close the QPs that were made with it first, and keep the context open.
  ~XrcdHandle() { static_cast<void>(Close()); }

  ibv_xrcd* get() const { return xrcd_; }

  // 0, or the errno value of ibv_close_xrcd; then it is still open. EBUSY: SRQs or QPs of this
  // process use it.
  int Close() {
    if (xrcd_ == nullptr) return 0;
    int error = ibv_close_xrcd(xrcd_);
    if (error == 0) xrcd_ = nullptr;
    return error;
  }

 private:
  ibv_xrcd* xrcd_;
};

// Opens the granted domain on `context`, a context of the domain's device that stays open as long
// as the handle is.
// Errors: XRCD_NOT_FOUND (also: another device's context), XRC_NOT_SUPPORTED, DEVICE_LIMIT,
// DEVICE_GONE, DEVICE_ERROR.
inline Result<XrcdHandle> OpenXrcdHandle(ibv_context* context, const Xrcd& domain) {
  Result<ibv_xrcd*> xrcd = internal::OpenXrcd(context, domain);
  if (!xrcd.ok()) return xrcd.error();
  return XrcdHandle(*xrcd);
}

// An ibv_qp from ibv_open_qp, with a way of closing it that is safe on every provider: either the
// handle and its domain are closed on the caller's context, or they live on a context of their own
// whose closing is the undo (libibverbs then keeps a few hundred bytes of bookkeeping for ever,
// which nothing could free safely). Move-only.
class QpHandle {
 public:
  QpHandle(ContextHandle own_context, ibv_xrcd* xrcd, ibv_qp* qp)
      : own_context_(std::move(own_context)), xrcd_(xrcd), qp_(qp) {}
  QpHandle(QpHandle&& other) noexcept
      : own_context_(std::move(other.own_context_)),
        xrcd_(std::exchange(other.xrcd_, nullptr)),
        qp_(std::exchange(other.qp_, nullptr)) {}
  QpHandle& operator=(QpHandle&& other) noexcept {
    QpHandle replaced(std::move(*this));
    own_context_ = std::move(other.own_context_);
    xrcd_ = std::exchange(other.xrcd_, nullptr);
    qp_ = std::exchange(other.qp_, nullptr);
    return *this;
  }
  ~QpHandle() {
    if (qp_ == nullptr || own_context_ != nullptr) return;
    ibv_destroy_qp(qp_);
    ibv_close_xrcd(xrcd_);
  }

  // For ibv_modify_qp (never to RESET: libmlx5 crashes in it) and ibv_query_qp.
  ibv_qp* get() const { return qp_; }
  // It lives on a context of its own.
  bool has_own_context() const { return own_context_ != nullptr; }

 private:
  ContextHandle own_context_;
  ibv_xrcd* xrcd_;
  ibv_qp* qp_;
};

// Opens the QP `qp_num` (24 bits) of the granted domain. `context` is a context of the domain's
// device; it stays open as long as the handle is.
// Errors: QP_NOT_FOUND, and those of OpenXrcdHandle and OpenDeviceContext.
inline Result<QpHandle> OpenQpHandle(ibv_context* context, const Xrcd& domain, uint32_t qp_num) {
  ContextHandle own_context;
  std::string provider = internal::LibraryOf(internal::ProviderCode(context));
  if (!internal::OpenedQpsCanBeDestroyed(provider)) {
    Result<ContextHandle> opened = internal::OpenContext(context->device);
    if (!opened.ok()) return opened.error();
    own_context = *std::move(opened);
  }
  ibv_context* chosen = own_context != nullptr ? own_context.get() : context;
  Result<ibv_xrcd*> xrcd = internal::OpenXrcd(chosen, domain);
  if (!xrcd.ok()) return xrcd.error();
  Result<ibv_qp*> qp = internal::OpenQp(*xrcd, qp_num);
  if (!qp.ok()) {
    ibv_close_xrcd(*xrcd);
    return qp.error();
  }
  return QpHandle(std::move(own_context), *xrcd, *qp);
}

}  // namespace qpbroker

#endif  // QPBROKER_VERBS_UTIL_H_
