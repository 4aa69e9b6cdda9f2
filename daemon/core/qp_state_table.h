// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_QP_STATE_TABLE_H_
#define QPBROKER_DAEMON_CORE_QP_STATE_TABLE_H_

// The InfiniBand state table for XRC target QPs: which changes of state are allowed, with which
// attributes. Source: InfiniBand Architecture Specification, volume 1, 10.3.1 and 11.2.5.2, and
// ib_modify_qp_is_ok() of the kernel. Checked here so that the answer names what is wrong, the same
// on every kernel and driver.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/verbs/qp_attributes.h"

namespace qpbroker::core {

// Whether an XRC target QP may go from `from` to `to` with exactly the attributes of `mask`
// (verbs::QpAttributeMask; kQpAttrState is ignored). INVALID_TRANSITION with metadata "transition"
// ("RESET->INIT") and, where one attribute is at fault, "attribute" ("port").
absl::Status CheckTransition(verbs::QpState from, verbs::QpState to, uint32_t mask);

// "RTS"
absl::string_view QpStateName(verbs::QpState state);

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_QP_STATE_TABLE_H_
