// SPDX-License-Identifier: Apache-2.0
#include "daemon/verbs/ibv_convert.h"

#include <algorithm>

namespace qpbroker::verbs {
namespace {

constexpr bool Same(uint32_t ours, uint32_t theirs) { return ours == theirs; }

static_assert(Same(kQpAttrState, IBV_QP_STATE) && Same(kQpAttrAccessFlags, IBV_QP_ACCESS_FLAGS) &&
              Same(kQpAttrPkeyIndex, IBV_QP_PKEY_INDEX) && Same(kQpAttrPort, IBV_QP_PORT) &&
              Same(kQpAttrAv, IBV_QP_AV) && Same(kQpAttrPathMtu, IBV_QP_PATH_MTU) &&
              Same(kQpAttrTimeout, IBV_QP_TIMEOUT) && Same(kQpAttrRqPsn, IBV_QP_RQ_PSN) &&
              Same(kQpAttrMinRnrTimer, IBV_QP_MIN_RNR_TIMER) && Same(kQpAttrSqPsn, IBV_QP_SQ_PSN) &&
              Same(kQpAttrMaxDestRdAtomic, IBV_QP_MAX_DEST_RD_ATOMIC) &&
              Same(kQpAttrDestQpn, IBV_QP_DEST_QPN));
static_assert(Same(kAccessLocalWrite, IBV_ACCESS_LOCAL_WRITE) &&
              Same(kAccessRemoteWrite, IBV_ACCESS_REMOTE_WRITE) &&
              Same(kAccessRemoteRead, IBV_ACCESS_REMOTE_READ) &&
              Same(kAccessRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(static_cast<int>(QpState::kReset) == IBV_QPS_RESET &&
              static_cast<int>(QpState::kErr) == IBV_QPS_ERR);

struct Rate {
  uint32_t mbps;
  ibv_rate rate;
};

constexpr Rate kRates[] = {
    {0, IBV_RATE_MAX},           {2500, IBV_RATE_2_5_GBPS},   {5000, IBV_RATE_5_GBPS},
    {10000, IBV_RATE_10_GBPS},   {14000, IBV_RATE_14_GBPS},   {20000, IBV_RATE_20_GBPS},
    {25000, IBV_RATE_25_GBPS},   {28000, IBV_RATE_28_GBPS},   {30000, IBV_RATE_30_GBPS},
    {40000, IBV_RATE_40_GBPS},   {50000, IBV_RATE_50_GBPS},   {56000, IBV_RATE_56_GBPS},
    {60000, IBV_RATE_60_GBPS},   {80000, IBV_RATE_80_GBPS},   {100000, IBV_RATE_100_GBPS},
    {112000, IBV_RATE_112_GBPS}, {120000, IBV_RATE_120_GBPS}, {168000, IBV_RATE_168_GBPS},
    {200000, IBV_RATE_200_GBPS}, {300000, IBV_RATE_300_GBPS}, {400000, IBV_RATE_400_GBPS},
    {600000, IBV_RATE_600_GBPS}, {800000, IBV_RATE_800_GBPS}, {1200000, IBV_RATE_1200_GBPS},
};

ibv_mtu ToIbvMtu(uint32_t bytes) {
  switch (bytes) {
    case 256:
      return IBV_MTU_256;
    case 512:
      return IBV_MTU_512;
    case 1024:
      return IBV_MTU_1024;
    case 2048:
      return IBV_MTU_2048;
    default:
      return IBV_MTU_4096;
  }
}

ibv_ah_attr ToIbv(const AddressVector& av) {
  ibv_ah_attr attr = {};
  attr.dlid = av.dlid;
  attr.sl = av.service_level;
  attr.src_path_bits = av.source_path_bits;
  attr.static_rate = ToIbvRate(av.rate_mbps);
  attr.port_num = av.port;
  if (av.is_global) {
    attr.is_global = 1;
    std::copy(av.dgid.begin(), av.dgid.end(), attr.grh.dgid.raw);
    attr.grh.sgid_index = av.sgid_index;
    attr.grh.hop_limit = av.hop_limit;
    attr.grh.traffic_class = av.traffic_class;
    attr.grh.flow_label = av.flow_label;
  }
  return attr;
}

AddressVector FromIbv(const ibv_ah_attr& attr) {
  AddressVector av;
  av.dlid = attr.dlid;
  av.service_level = attr.sl;
  av.source_path_bits = attr.src_path_bits;
  av.rate_mbps = RateMbps(static_cast<ibv_rate>(attr.static_rate));
  av.port = attr.port_num;
  if (attr.is_global != 0) {
    av.is_global = true;
    std::copy(std::begin(attr.grh.dgid.raw), std::end(attr.grh.dgid.raw), av.dgid.begin());
    av.sgid_index = attr.grh.sgid_index;
    av.hop_limit = attr.grh.hop_limit;
    av.traffic_class = attr.grh.traffic_class;
    av.flow_label = attr.grh.flow_label;
  }
  return av;
}

}  // namespace

ibv_qp_attr ToIbv(const QpAttributes& attributes, uint32_t mask) {
  ibv_qp_attr attr = {};
  if ((mask & kQpAttrState) != 0) attr.qp_state = static_cast<ibv_qp_state>(attributes.state);
  if ((mask & kQpAttrAccessFlags) != 0) attr.qp_access_flags = attributes.access;
  if ((mask & kQpAttrPkeyIndex) != 0) attr.pkey_index = attributes.pkey_index;
  if ((mask & kQpAttrPort) != 0) attr.port_num = attributes.port;
  if ((mask & kQpAttrAv) != 0) attr.ah_attr = ToIbv(attributes.av);
  if ((mask & kQpAttrPathMtu) != 0) attr.path_mtu = ToIbvMtu(attributes.path_mtu);
  if ((mask & kQpAttrTimeout) != 0) attr.timeout = attributes.timeout;
  if ((mask & kQpAttrRqPsn) != 0) attr.rq_psn = attributes.rq_psn;
  if ((mask & kQpAttrMinRnrTimer) != 0) attr.min_rnr_timer = attributes.min_rnr_timer;
  if ((mask & kQpAttrSqPsn) != 0) attr.sq_psn = attributes.sq_psn;
  if ((mask & kQpAttrMaxDestRdAtomic) != 0) {
    attr.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  }
  if ((mask & kQpAttrDestQpn) != 0) attr.dest_qp_num = attributes.dest_qp_num;
  return attr;
}

QpAttributes FromIbv(const ibv_qp_attr& attr) {
  QpAttributes attributes;
  attributes.state = static_cast<QpState>(attr.qp_state);
  attributes.access = attr.qp_access_flags;
  attributes.pkey_index = attr.pkey_index;
  attributes.port = attr.port_num;
  attributes.av = FromIbv(attr.ah_attr);
  attributes.path_mtu = MtuBytes(attr.path_mtu);
  attributes.timeout = attr.timeout;
  attributes.rq_psn = attr.rq_psn;
  attributes.min_rnr_timer = attr.min_rnr_timer;
  attributes.sq_psn = attr.sq_psn;
  attributes.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  attributes.dest_qp_num = attr.dest_qp_num;
  return attributes;
}

ibv_rate ToIbvRate(uint32_t rate_mbps) {
  for (const Rate& rate : kRates) {
    if (rate.mbps == rate_mbps) return rate.rate;
  }
  return IBV_RATE_MAX;
}

uint32_t RateMbps(ibv_rate rate) {
  for (const Rate& known : kRates) {
    if (known.rate == rate) return known.mbps;
  }
  return 0;
}

PortState FromIbv(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return PortState::kDown;
    case IBV_PORT_INIT:
      return PortState::kInit;
    case IBV_PORT_ARMED:
      return PortState::kArmed;
    case IBV_PORT_ACTIVE:
    case IBV_PORT_ACTIVE_DEFER:
      return PortState::kActive;
    default:
      return PortState::kUnknown;
  }
}

LinkLayer LinkLayerFromIbv(uint8_t link_layer) {
  // libibverbs says "unspecified" for providers from before RoCE.
  if (link_layer == IBV_LINK_LAYER_ETHERNET) return LinkLayer::kEthernet;
  return link_layer <= IBV_LINK_LAYER_INFINIBAND ? LinkLayer::kInfiniBand : LinkLayer::kUnknown;
}

uint32_t MtuBytes(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

AsyncEventKind KindOf(ibv_event_type type) {
  switch (type) {
    // Each of the three leaves the QP in state ERR.
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return AsyncEventKind::kQpFatal;
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return AsyncEventKind::kQpOther;
    case IBV_EVENT_PORT_ACTIVE:
      return AsyncEventKind::kPortActive;
    case IBV_EVENT_PORT_ERR:
      return AsyncEventKind::kPortDown;
    case IBV_EVENT_DEVICE_FATAL:
      return AsyncEventKind::kDeviceFatal;
    default:
      return AsyncEventKind::kOther;
  }
}

}  // namespace qpbroker::verbs
