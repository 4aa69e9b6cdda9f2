// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_IBV_RESET_H_
#define QPBROKER_DAEMON_VERBS_IBV_RESET_H_

#include <infiniband/verbs.h>

#include "daemon/verbs/ibv_context.h"

namespace qpbroker::verbs {

// Moves `qp`, a handle from ibv_open_qp, to RESET by the kernel's own call, past a provider whose
// ibv_modify_qp cannot. Returns 0 or the errno; EOPNOTSUPP where the provider's driver id is not
// known.
int ResetOpenedQp(const IbvProvider& provider, ibv_qp* qp);

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_IBV_RESET_H_
