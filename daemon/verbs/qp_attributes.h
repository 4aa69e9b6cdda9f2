// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_QP_ATTRIBUTES_H_
#define QPBROKER_DAEMON_VERBS_QP_ATTRIBUTES_H_

#include <array>
#include <cstdint>

namespace qpbroker::verbs {

// As enum ibv_qp_state.
enum class QpState : uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr };

// Which members of QpAttributes are meant; the bits of enum ibv_qp_attr_mask. Those that an XRC
// target QP never carries are left out.
enum QpAttributeMask : uint32_t {
  kQpAttrState = 1u << 0,
  kQpAttrAccessFlags = 1u << 3,
  kQpAttrPkeyIndex = 1u << 4,
  kQpAttrPort = 1u << 5,
  kQpAttrAv = 1u << 7,
  kQpAttrPathMtu = 1u << 8,
  kQpAttrTimeout = 1u << 9,
  kQpAttrRqPsn = 1u << 12,
  kQpAttrMinRnrTimer = 1u << 15,
  kQpAttrSqPsn = 1u << 16,
  kQpAttrMaxDestRdAtomic = 1u << 17,
  kQpAttrDestQpn = 1u << 20,
};

// The bits of enum ibv_access_flags.
enum AccessBits : uint32_t {
  kAccessLocalWrite = 1u << 0,
  kAccessRemoteWrite = 1u << 1,
  kAccessRemoteRead = 1u << 2,
  kAccessRemoteAtomic = 1u << 3,
};

// 16 bytes in network order.
using Gid = std::array<uint8_t, 16>;

// Where packets go; ibv_ah_attr.
struct AddressVector {
  uint16_t dlid = 0;
  uint8_t service_level = 0;
  uint8_t source_path_bits = 0;
  uint32_t rate_mbps = 0;  // 0: as fast as the port.
  uint8_t port = 0;
  bool is_global = false;  // The members below count.
  Gid dgid{};
  uint8_t sgid_index = 0;
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;

  bool operator==(const AddressVector&) const = default;
};

// Attributes of an XRC target QP; ibv_qp_attr.
struct QpAttributes {
  QpState state = QpState::kReset;
  uint32_t access = 0;      // AccessBits.
  uint16_t pkey_index = 0;  // Index in the port's table.
  uint8_t port = 0;         // From 1.
  AddressVector av;
  uint32_t path_mtu = 0;  // Bytes: 256, 512, 1024, 2048, 4096.
  uint8_t timeout = 0;    // 4.096 us * 2^timeout; 0: for ever.
  uint32_t rq_psn = 0;
  uint32_t sq_psn = 0;
  uint8_t min_rnr_timer = 0;  // 5-bit code.
  uint8_t max_dest_rd_atomic = 0;
  uint32_t dest_qp_num = 0;
};

// Whether `rate_mbps` is a rate that InfiniBand names, or 0.
bool IsNamedRate(uint32_t rate_mbps);

// Whether `bytes` is 256, 512, 1024, 2048 or 4096.
bool IsPathMtu(uint32_t bytes);

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_QP_ATTRIBUTES_H_
