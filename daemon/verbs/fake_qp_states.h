// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_FAKE_QP_STATES_H_
#define QPBROKER_DAEMON_VERBS_FAKE_QP_STATES_H_

#include <cstdint>
#include <vector>

#include "daemon/verbs/qp_attributes.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::verbs {

// What the kernel asks before it modifies an XRC target in state `current` (its
// ib_modify_qp_is_ok): is there such a transition, does `mask` hold all that it needs and nothing
// that it may not carry.
bool ModifyIsOk(QpState current, QpState next, uint32_t mask);

// Carries out a modify on `qp`, or refuses it: 0 or the errno of uverbs and mlx4.
int ModifyFakeQp(const std::vector<PortInfo>& ports, uint32_t max_dest_rd_atomic,
                 const QpAttributes& attributes, uint32_t mask, QpAttributes& qp);

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_FAKE_QP_STATES_H_
