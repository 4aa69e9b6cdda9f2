// SPDX-License-Identifier: Apache-2.0
// Whether a device has XRC is two questions. The kernel answers one with a capability bit. The
// other is whether the provider implements ibv_open_qp, which most do not; libibverbs puts a stub
// in the place of what is missing, so the only way to know is to call it. The call opens QP 0 of a
// domain made for that.
#include "daemon/verbs/ibv_device.h"

#include <endian.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "daemon/verbs/ibv_convert.h"
#include "daemon/verbs/ibv_xrcd.h"
#include "daemon/verbs/verbs_calls.h"

namespace qpbroker::verbs {
namespace {

bool IsNotImplemented(int errno_value) {
  return errno_value == EOPNOTSUPP || errno_value == ENOSYS;
}

// Returns 0 if `context` can open shared QPs, else the errno of what failed.
int ProbeSharedQps(ibv_context* context) {
  ibv_xrcd_init_attr xrcd_attr = {};
  xrcd_attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd_attr.fd = -1;  // A domain that nobody else can join.
  xrcd_attr.oflags = O_CREAT;
  errno = EOPNOTSUPP;
  ibv_xrcd* xrcd = ibv_open_xrcd(context, &xrcd_attr);
  if (xrcd == nullptr) return errno;

  ibv_qp_open_attr open_attr = {};
  open_attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open_attr.qp_num = 0;
  open_attr.xrcd = xrcd;
  open_attr.qp_type = IBV_QPT_XRC_RECV;
  errno = EOPNOTSUPP;
  ibv_qp* qp = ibv_open_qp(context, &open_attr);
  int errno_value = qp != nullptr ? 0 : errno;
  ibv_close_xrcd(xrcd);
  return errno_value == EINVAL ? 0 : errno_value;
}

std::vector<Gid> ReadGids(ibv_context* context, uint8_t port, int count) {
  std::vector<Gid> gids(std::max(count, 0), Gid{});
  for (int index = 0; index < count; ++index) {
    union ibv_gid gid = {};
    if (ibv_query_gid(context, port, index, &gid) != 0) continue;
    std::copy(std::begin(gid.raw), std::end(gid.raw), gids[index].begin());
  }
  return gids;
}

std::vector<uint16_t> ReadPkeys(ibv_context* context, uint8_t port, int count) {
  std::vector<uint16_t> pkeys(count, 0);
  for (int index = 0; index < count; ++index) {
    __be16 pkey = 0;
    if (ibv_query_pkey(context, port, index, &pkey) == 0) pkeys[index] = be16toh(pkey);
  }
  return pkeys;
}

AsyncEvent FromIbv(const ibv_async_event& from) {
  AsyncEvent event;
  event.kind = KindOf(from.event_type);
  event.type = from.event_type;
  switch (event.kind) {
    case AsyncEventKind::kQpFatal:
    case AsyncEventKind::kQpOther:
      // The QP is there: ibv_destroy_qp waits for the acknowledgement.
      event.qp_num = from.element.qp->qp_num;
      break;
    case AsyncEventKind::kPortActive:
    case AsyncEventKind::kPortDown:
      event.port = static_cast<uint8_t>(from.element.port_num);
      break;
    default:
      break;
  }
  return event;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> IbvDevice::Make(std::unique_ptr<IbvContext> context) {
  std::unique_ptr<IbvDevice> device(new IbvDevice(std::move(context)));
  if (absl::Status status = device->Init(); !status.ok()) return status;
  return device;
}

absl::Status IbvDevice::Init() {
  info_.name = context_->device_name();
  ibv_device_attr attributes = {};
  if (int error = ErrnoOf(ibv_query_device(context_->get(), &attributes)); error != 0) {
    return CallError(Call::kQueryDevice, error, {{"device", info_.name}});
  }
  info_.firmware = attributes.fw_ver;
  info_.node_guid = be64toh(attributes.node_guid);
  info_.max_qp = static_cast<uint32_t>(attributes.max_qp);
  info_.max_dest_rd_atomic = static_cast<uint32_t>(attributes.max_qp_rd_atom);
  port_count_ = attributes.phys_port_cnt;

  int flags = fcntl(event_fd(), F_GETFL);
  if (flags < 0 || fcntl(event_fd(), F_SETFL, flags | O_NONBLOCK) < 0) {
    return ErrnoError(v1::REASON_DEVICE_ERROR, errno, "fcntl", {{"device", info_.name}});
  }
  return LearnXrc(attributes);
}

absl::Status IbvDevice::LearnXrc(const ibv_device_attr& attributes) {
  if ((attributes.device_cap_flags & IBV_DEVICE_XRC) == 0) {
    info_.xrc_unsupported_reason = "the kernel driver reports no XRC capability";
    return absl::OkStatus();
  }
  int error = ProbeSharedQps(context_->get());
  if (error == 0) {
    info_.xrc_supported = true;
  } else if (IsNotImplemented(error)) {
    info_.xrc_unsupported_reason = absl::StrCat("the user-space driver ", context_->provider().name,
                                                " does not implement ibv_open_qp");
  } else {
    return CallError(Call::kOpenDevice, error, {{"device", info_.name}});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PortInfo>> IbvDevice::QueryPorts() {
  std::vector<PortInfo> ports;
  for (int number = 1; number <= port_count_; ++number) {
    absl::StatusOr<PortInfo> port = QueryPort(static_cast<uint8_t>(number));
    if (!port.ok()) return port.status();
    ports.push_back(*std::move(port));
  }
  return ports;
}

absl::StatusOr<PortInfo> IbvDevice::QueryPort(uint8_t number) {
  ibv_port_attr attributes = {};
  if (int error = ErrnoOf(ibv_query_port(context_->get(), number, &attributes)); error != 0) {
    return CallError(Call::kQueryPort, error,
                     {{"device", info_.name}, {"port", absl::StrCat(number)}});
  }
  PortInfo port;
  port.number = number;
  port.state = qpbroker::verbs::FromIbv(attributes.state);
  port.link_layer = LinkLayerFromIbv(attributes.link_layer);
  port.lid = attributes.lid;
  port.active_mtu = MtuBytes(attributes.active_mtu);
  port.gids = ReadGids(context_->get(), number, attributes.gid_tbl_len);
  port.pkeys = ReadPkeys(context_->get(), number, attributes.pkey_tbl_len);
  return port;
}

absl::StatusOr<std::unique_ptr<Xrcd>> IbvDevice::OpenXrcd(int fd, OpenXrcdMode mode) {
  if (!info_.xrc_supported) {
    return MakeError(v1::REASON_XRC_NOT_SUPPORTED,
                     absl::StrCat(info_.name, ": ", info_.xrc_unsupported_reason),
                     {{"device", info_.name}});
  }
  absl::StatusOr<struct stat> file = StatDomainFile(fd);
  if (!file.ok()) return file.status();
  return IbvXrcd::Open(*context_, fd, mode);
}

absl::StatusOr<std::optional<AsyncEvent>> IbvDevice::NextEvent() {
  ibv_async_event from = {};
  errno = 0;
  if (ibv_get_async_event(context_->get(), &from) != 0) {
    if (errno == EAGAIN || errno == EINTR) return std::nullopt;
    return CallError(Call::kGetEvent, errno != 0 ? errno : EIO, {{"device", info_.name}});
  }
  AsyncEvent event = FromIbv(from);
  ibv_ack_async_event(&from);
  return event;
}

}  // namespace qpbroker::verbs
