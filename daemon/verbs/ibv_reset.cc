// SPDX-License-Identifier: Apache-2.0
// After the kernel has reset a QP, a provider clears its own rings and doorbell, which a handle
// from ibv_open_qp does not have: libmlx5 writes through a null pointer. An XRC target has no rings
// anywhere, so the kernel's half is all there is to do. A daemon that opened its QPs again after a
// restart could not reconnect one of them otherwise. The call is that of the uverbs ABI
// (INVOKE_WRITE, Linux 5.0).
#include "daemon/verbs/ibv_reset.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace qpbroker::verbs {
namespace {

// ib_uverbs_ioctl_hdr with its two attributes.
struct ModifyRequest {
  alignas(ib_uverbs_ioctl_hdr) unsigned char header[sizeof(ib_uverbs_ioctl_hdr)] = {};
  ib_uverbs_attr attributes[2] = {};
};
static_assert(offsetof(ModifyRequest, attributes) == sizeof(ib_uverbs_ioctl_hdr));

void FillHeader(uint32_t driver_id, ModifyRequest& request) {
  auto* header = reinterpret_cast<ib_uverbs_ioctl_hdr*>(request.header);
  header->length = sizeof(request);
  header->object_id = UVERBS_OBJECT_DEVICE;
  header->method_id = UVERBS_METHOD_INVOKE_WRITE;
  header->num_attrs = 2;
  header->driver_id = driver_id;
}

}  // namespace

int ResetOpenedQp(const IbvProvider& provider, ibv_qp* qp) {
  if (!provider.driver_id) return EOPNOTSUPP;

  ib_uverbs_modify_qp command = {};
  command.qp_handle = qp->handle;
  command.attr_mask = IBV_QP_STATE;
  command.qp_state = IBV_QPS_RESET;

  ModifyRequest request;
  FillHeader(*provider.driver_id, request);
  ib_uverbs_attr& number = request.attributes[0];
  number.attr_id = UVERBS_ATTR_WRITE_CMD;
  number.len = sizeof(uint64_t);
  number.flags = UVERBS_ATTR_F_MANDATORY;
  number.data = IB_USER_VERBS_CMD_MODIFY_QP;
  ib_uverbs_attr& input = request.attributes[1];
  input.attr_id = UVERBS_ATTR_CORE_IN;
  input.len = sizeof(command);
  input.flags = UVERBS_ATTR_F_MANDATORY;
  input.data = reinterpret_cast<uintptr_t>(&command);

  if (ioctl(qp->context->cmd_fd, RDMA_VERBS_IOCTL, &request) != 0) return errno;
  qp->state = IBV_QPS_RESET;
  return 0;
}

}  // namespace qpbroker::verbs
