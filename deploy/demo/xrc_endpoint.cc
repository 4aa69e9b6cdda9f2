// SPDX-License-Identifier: Apache-2.0
#include "deploy/demo/xrc_endpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace demo {
namespace {

constexpr uint8_t kPort = 1;
constexpr uint32_t kSlots = 16;
constexpr uint32_t kPsn = 0x123;

template <class T>
T* Need(T* object, const char* call) {
  if (object == nullptr) {
    std::fprintf(stderr, "%s: %s\n", call, std::strerror(errno));
    std::exit(1);
  }
  return object;
}

void NeedZero(int error, const char* call) {
  if (error == 0) return;
  std::fprintf(stderr, "%s: %s\n", call, std::strerror(error > 0 ? error : errno));
  std::exit(1);
}

ibv_mtu ToMtu(uint32_t bytes) {
  int code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && (128u << code) < bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

}  // namespace

XrcReceiver::XrcReceiver(ibv_context* context, ibv_xrcd* xrcd)
    : pd_(Need(ibv_alloc_pd(context), "ibv_alloc_pd")),
      channel_(Need(ibv_create_comp_channel(context), "ibv_create_comp_channel")),
      cq_(Need(ibv_create_cq(context, kSlots, nullptr, channel_, 0), "ibv_create_cq")),
      buffer_(kSlots * kMessageBytes),
      mr_(Need(ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE),
               "ibv_reg_mr")) {
  ibv_srq_init_attr_ex attributes = {};
  attributes.attr.max_wr = kSlots;
  attributes.attr.max_sge = 1;
  attributes.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attributes.srq_type = IBV_SRQT_XRC;
  attributes.pd = pd_;
  attributes.xrcd = xrcd;
  attributes.cq = cq_;
  srq_ = Need(ibv_create_srq_ex(context, &attributes), "ibv_create_srq_ex");
  NeedZero(ibv_get_srq_num(srq_, &srq_number_), "ibv_get_srq_num");
  for (uint64_t slot = 0; slot < kSlots; ++slot) Post(slot);
  NeedZero(ibv_req_notify_cq(cq_, 0), "ibv_req_notify_cq");
}

XrcReceiver::~XrcReceiver() {
  ibv_destroy_srq(srq_);
  ibv_dereg_mr(mr_);
  ibv_destroy_cq(cq_);
  ibv_destroy_comp_channel(channel_);
  ibv_dealloc_pd(pd_);
}

void XrcReceiver::Post(uint64_t slot) {
  ibv_sge piece = {};
  piece.addr = reinterpret_cast<uint64_t>(&buffer_[slot * kMessageBytes]);
  piece.length = kMessageBytes;
  piece.lkey = mr_->lkey;
  ibv_recv_wr request = {};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  NeedZero(ibv_post_srq_recv(srq_, &request, &bad), "ibv_post_srq_recv");
}

std::vector<std::string> XrcReceiver::Take() {
  ibv_cq* cq = nullptr;
  void* unused = nullptr;
  NeedZero(ibv_get_cq_event(channel_, &cq, &unused), "ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
  // Asked for before the queue is emptied: what comes after that rings again.
  NeedZero(ibv_req_notify_cq(cq_, 0), "ibv_req_notify_cq");
  std::vector<std::string> messages;
  ibv_wc completion = {};
  while (ibv_poll_cq(cq_, 1, &completion) > 0) {
    if (completion.status != IBV_WC_SUCCESS) {
      std::fprintf(stderr, "receive: %s\n", ibv_wc_status_str(completion.status));
      continue;
    }
    messages.emplace_back(&buffer_[completion.wr_id * kMessageBytes], completion.byte_len);
    Post(completion.wr_id);
  }
  return messages;
}

XrcSender::XrcSender(ibv_context* context)
    : pd_(Need(ibv_alloc_pd(context), "ibv_alloc_pd")),
      cq_(Need(ibv_create_cq(context, kSlots, nullptr, nullptr, 0), "ibv_create_cq")),
      buffer_(kMessageBytes),
      mr_(Need(ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), 0), "ibv_reg_mr")) {
  ibv_qp_init_attr_ex attributes = {};
  attributes.qp_type = IBV_QPT_XRC_SEND;
  attributes.send_cq = cq_;
  attributes.cap.max_send_wr = kSlots;
  attributes.cap.max_send_sge = 1;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
  attributes.pd = pd_;
  qp_ = Need(ibv_create_qp_ex(context, &attributes), "ibv_create_qp_ex");
}

XrcSender::~XrcSender() {
  ibv_destroy_qp(qp_);
  ibv_dereg_mr(mr_);
  ibv_destroy_cq(cq_);
  ibv_dealloc_pd(pd_);
}

Address XrcSender::address() const {
  ibv_port_attr port = {};
  NeedZero(ibv_query_port(qp_->context, kPort, &port), "ibv_query_port");
  return {qp_->qp_num, port.lid, kPsn, 128u << port.active_mtu};
}

// An initiator QP carries no responder's attributes (max_dest_rd_atomic, min_rnr_timer): newer
// kernels refuse them.
void XrcSender::Connect(const Address& target) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  NeedZero(ibv_modify_qp(qp_, &attributes,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
           "ibv_modify_qp to INIT");
  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = ToMtu(target.mtu);
  attributes.dest_qp_num = target.qp_num;
  attributes.rq_psn = target.psn;
  attributes.ah_attr.dlid = static_cast<uint16_t>(target.lid);
  attributes.ah_attr.port_num = kPort;
  NeedZero(
      ibv_modify_qp(qp_, &attributes,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
      "ibv_modify_qp to RTR");
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.sq_psn = kPsn;
  attributes.max_rd_atomic = 1;
  NeedZero(ibv_modify_qp(qp_, &attributes,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
           "ibv_modify_qp to RTS");
}

bool XrcSender::Send(uint32_t srq_number, const std::string& text) {
  const size_t size = std::min(text.size(), kMessageBytes);
  std::memcpy(buffer_.data(), text.data(), size);
  ibv_sge piece = {};
  piece.addr = reinterpret_cast<uint64_t>(buffer_.data());
  piece.length = static_cast<uint32_t>(size);
  piece.lkey = mr_->lkey;
  ibv_send_wr request = {};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.qp_type.xrc.remote_srqn = srq_number;
  ibv_send_wr* bad = nullptr;
  NeedZero(ibv_post_send(qp_, &request, &bad), "ibv_post_send");
  ibv_wc completion = {};
  int polled = 0;
  while ((polled = ibv_poll_cq(cq_, 1, &completion)) == 0) {
  }
  if (polled > 0 && completion.status == IBV_WC_SUCCESS) return true;
  std::fprintf(stderr, "send: %s\n", ibv_wc_status_str(completion.status));
  return false;
}

}  // namespace demo
