// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_IBV_CONVERT_H_
#define QPBROKER_DAEMON_VERBS_IBV_CONVERT_H_

// Between this folder's types and those of <infiniband/verbs.h>.

#include <infiniband/verbs.h>

#include <cstdint>

#include "daemon/verbs/qp_attributes.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::verbs {

// All zero but what `mask` names. CheckModifyArguments must have accepted the arguments.
ibv_qp_attr ToIbv(const QpAttributes& attributes, uint32_t mask);
QpAttributes FromIbv(const ibv_qp_attr& attributes);

// 0 is IBV_RATE_MAX, and so is what has no name.
ibv_rate ToIbvRate(uint32_t rate_mbps);
uint32_t RateMbps(ibv_rate rate);

PortState FromIbv(ibv_port_state state);
LinkLayer LinkLayerFromIbv(uint8_t link_layer);
uint32_t MtuBytes(ibv_mtu mtu);

// Which kind an event is, without its subject.
AsyncEventKind KindOf(ibv_event_type type);

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_IBV_CONVERT_H_
