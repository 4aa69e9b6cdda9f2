// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/qp_state_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"

namespace qpbroker::core {
namespace {

using verbs::QpState;

struct Transition {
  QpState from;
  QpState to;
  uint32_t required;
  uint32_t optional;
};

constexpr uint32_t kInitAttributes =
    verbs::kQpAttrPkeyIndex | verbs::kQpAttrPort | verbs::kQpAttrAccessFlags;
constexpr uint32_t kRtrAttributes = verbs::kQpAttrAv | verbs::kQpAttrPathMtu |
                                    verbs::kQpAttrDestQpn | verbs::kQpAttrRqPsn |
                                    verbs::kQpAttrMaxDestRdAtomic | verbs::kQpAttrMinRnrTimer;
constexpr uint32_t kRunningAttributes = verbs::kQpAttrAccessFlags | verbs::kQpAttrMinRnrTimer;

// Any state may go to RESET and ERR, without attributes; those are not listed.
constexpr Transition kTable[] = {
    {QpState::kReset, QpState::kInit, kInitAttributes, 0},
    {QpState::kInit, QpState::kInit, 0, kInitAttributes},
    {QpState::kInit, QpState::kRtr, kRtrAttributes,
     verbs::kQpAttrAccessFlags | verbs::kQpAttrPkeyIndex},
    {QpState::kRtr, QpState::kRts, verbs::kQpAttrTimeout | verbs::kQpAttrSqPsn, kRunningAttributes},
    {QpState::kRts, QpState::kRts, 0, kRunningAttributes},
    {QpState::kRts, QpState::kSqd, 0, 0},
    {QpState::kSqd, QpState::kRts, 0, kRunningAttributes},
    {QpState::kSqd, QpState::kSqd, 0,
     kInitAttributes | verbs::kQpAttrAv | verbs::kQpAttrTimeout | verbs::kQpAttrMinRnrTimer |
         verbs::kQpAttrMaxDestRdAtomic},
    {QpState::kSqe, QpState::kRts, 0, kRunningAttributes},
};

struct AttributeName {
  uint32_t bit;
  absl::string_view name;  // As in QpAttributes of resources.proto.
};
constexpr AttributeName kNames[] = {
    {verbs::kQpAttrAccessFlags, "access"},  {verbs::kQpAttrPkeyIndex, "pkey"},
    {verbs::kQpAttrPort, "port"},           {verbs::kQpAttrAv, "path"},
    {verbs::kQpAttrPathMtu, "path_mtu"},    {verbs::kQpAttrTimeout, "timeout"},
    {verbs::kQpAttrRqPsn, "rq_psn"},        {verbs::kQpAttrMinRnrTimer, "min_rnr_timer"},
    {verbs::kQpAttrSqPsn, "sq_psn"},        {verbs::kQpAttrMaxDestRdAtomic, "max_dest_rd_atomic"},
    {verbs::kQpAttrDestQpn, "dest_qp_num"},
};

// The first attribute in `mask`.
absl::string_view FirstName(uint32_t mask) {
  for (const AttributeName& entry : kNames) {
    if ((mask & entry.bit) != 0) return entry.name;
  }
  return "unknown";
}

absl::Status Refuse(const std::string& transition, uint32_t culprits, absl::string_view problem) {
  if (culprits == 0) {
    return MakeError(v1::REASON_INVALID_TRANSITION,
                     absl::StrCat(transition, " is not a transition of an XRC target QP"),
                     {{"transition", transition}});
  }
  const std::string attribute(FirstName(culprits));
  return MakeError(v1::REASON_INVALID_TRANSITION,
                   absl::StrCat(transition, ": attribute ", attribute, " ", problem),
                   {{"transition", transition}, {"attribute", attribute}});
}

}  // namespace

absl::string_view QpStateName(QpState state) {
  switch (state) {
    case QpState::kReset:
      return "RESET";
    case QpState::kInit:
      return "INIT";
    case QpState::kRtr:
      return "RTR";
    case QpState::kRts:
      return "RTS";
    case QpState::kSqd:
      return "SQD";
    case QpState::kSqe:
      return "SQE";
    case QpState::kErr:
      return "ERR";
  }
  return "unknown";
}

absl::Status CheckTransition(QpState from, QpState to, uint32_t mask) {
  mask &= ~verbs::kQpAttrState;
  const std::string transition = absl::StrCat(QpStateName(from), "->", QpStateName(to));
  if (to == QpState::kReset || to == QpState::kErr) {
    return mask == 0 ? absl::OkStatus() : Refuse(transition, mask, "has no place in it");
  }
  for (const Transition& row : kTable) {
    if (row.from != from || row.to != to) continue;
    if (uint32_t missing = row.required & ~mask; missing != 0) {
      return Refuse(transition, missing, "is missing");
    }
    if (uint32_t extra = mask & ~(row.required | row.optional); extra != 0) {
      return Refuse(transition, extra, "has no place in it");
    }
    return absl::OkStatus();
  }
  return Refuse(transition, 0, "");
}

}  // namespace qpbroker::core
