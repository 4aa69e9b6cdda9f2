// SPDX-License-Identifier: Apache-2.0
// The rows of the InfiniBand state table (IBA 1.x, 11.2.5.2 "Modify Queue Pair") for XRC targets as
// Linux has them, and the checks that uverbs and mlx4 make around it.
#include "daemon/verbs/fake_qp_states.h"

#include <cerrno>

namespace qpbroker::verbs {
namespace {

constexpr uint32_t kPsnMask = 0xffffff;

struct Transition {
  QpState from;
  QpState to;
  uint32_t required;
  uint32_t optional;
};

constexpr uint32_t kInitAttributes = kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
constexpr uint32_t kReceiveAttributes = kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                                        kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;

// Any state but RESET also goes to ERR, and every state to RESET, without attributes.
constexpr Transition kTransitions[] = {
    {QpState::kReset, QpState::kInit, kInitAttributes, 0},
    {QpState::kInit, QpState::kInit, 0, kInitAttributes},
    {QpState::kInit, QpState::kRtr, kReceiveAttributes, kQpAttrAccessFlags | kQpAttrPkeyIndex},
    {QpState::kRtr, QpState::kRts, kQpAttrTimeout | kQpAttrSqPsn,
     kQpAttrAccessFlags | kQpAttrMinRnrTimer},
    {QpState::kRts, QpState::kRts, 0, kQpAttrAccessFlags | kQpAttrMinRnrTimer},
    {QpState::kRts, QpState::kSqd, 0, 0},
    {QpState::kSqd, QpState::kRts, 0, kQpAttrAccessFlags | kQpAttrMinRnrTimer},
    {QpState::kSqd, QpState::kSqd, 0,
     kQpAttrPort | kQpAttrAv | kQpAttrTimeout | kQpAttrMaxDestRdAtomic | kQpAttrAccessFlags |
         kQpAttrPkeyIndex | kQpAttrMinRnrTimer},
    {QpState::kSqe, QpState::kRts, 0, 0},
};

const PortInfo* PortOf(const std::vector<PortInfo>& ports, uint8_t number) {
  for (const PortInfo& port : ports) {
    if (port.number == number) return &port;
  }
  return nullptr;
}

int CheckAddress(const std::vector<PortInfo>& ports, const AddressVector& av, uint8_t qp_port) {
  const PortInfo* port = PortOf(ports, av.port);
  // The port of the path must be that of the QP.
  if (port == nullptr || av.port != qp_port) return EINVAL;
  if (!av.is_global) return port->link_layer == LinkLayer::kEthernet ? EINVAL : 0;
  if (av.sgid_index >= port->gids.size()) return EINVAL;
  return port->gids[av.sgid_index] == Gid{} ? ENODATA : 0;
}

int CheckValues(const std::vector<PortInfo>& ports, uint32_t max_dest_rd_atomic,
                const QpAttributes& attributes, uint32_t mask, uint8_t port_number) {
  const PortInfo* port = PortOf(ports, port_number);
  if ((mask & kQpAttrPort) != 0 && port == nullptr) return EINVAL;
  if ((mask & kQpAttrPkeyIndex) != 0 &&
      (port == nullptr || attributes.pkey_index >= port->pkeys.size())) {
    return EINVAL;
  }
  if ((mask & kQpAttrMaxDestRdAtomic) != 0 && attributes.max_dest_rd_atomic > max_dest_rd_atomic) {
    return EINVAL;
  }
  return (mask & kQpAttrAv) != 0 ? CheckAddress(ports, attributes.av, port_number) : 0;
}

void Assign(const QpAttributes& attributes, uint32_t mask, QpAttributes& qp) {
  if ((mask & kQpAttrAccessFlags) != 0) qp.access = attributes.access;
  if ((mask & kQpAttrPkeyIndex) != 0) qp.pkey_index = attributes.pkey_index;
  if ((mask & kQpAttrPort) != 0) qp.port = attributes.port;
  if ((mask & kQpAttrAv) != 0) qp.av = attributes.av;
  if ((mask & kQpAttrPathMtu) != 0) qp.path_mtu = attributes.path_mtu;
  if ((mask & kQpAttrTimeout) != 0) qp.timeout = attributes.timeout;
  if ((mask & kQpAttrRqPsn) != 0) qp.rq_psn = attributes.rq_psn & kPsnMask;
  if ((mask & kQpAttrMinRnrTimer) != 0) qp.min_rnr_timer = attributes.min_rnr_timer;
  if ((mask & kQpAttrSqPsn) != 0) qp.sq_psn = attributes.sq_psn & kPsnMask;
  if ((mask & kQpAttrMaxDestRdAtomic) != 0) qp.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  if ((mask & kQpAttrDestQpn) != 0) qp.dest_qp_num = attributes.dest_qp_num;
}

}  // namespace

bool ModifyIsOk(QpState current, QpState next, uint32_t mask) {
  const uint32_t attributes = mask & ~kQpAttrState;
  if (next == QpState::kReset) return attributes == 0;
  if (next == QpState::kErr) return current != QpState::kReset && attributes == 0;
  for (const Transition& transition : kTransitions) {
    if (transition.from != current || transition.to != next) continue;
    return (attributes & transition.required) == transition.required &&
           (attributes & ~(transition.required | transition.optional)) == 0;
  }
  return false;
}

int ModifyFakeQp(const std::vector<PortInfo>& ports, uint32_t max_dest_rd_atomic,
                 const QpAttributes& attributes, uint32_t mask, QpAttributes& qp) {
  const QpState next = (mask & kQpAttrState) != 0 ? attributes.state : qp.state;
  if (!ModifyIsOk(qp.state, next, mask)) return EINVAL;
  const uint8_t port = (mask & kQpAttrPort) != 0 ? attributes.port : qp.port;
  int error = CheckValues(ports, max_dest_rd_atomic, attributes, mask, port);
  if (error != 0) return error;
  if (next == QpState::kReset) {
    qp = QpAttributes{};
    return 0;
  }
  Assign(attributes, mask, qp);
  qp.state = next;
  return 0;
}

}  // namespace qpbroker::verbs
