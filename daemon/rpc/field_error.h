// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RPC_FIELD_ERROR_H_
#define QPBROKER_DAEMON_RPC_FIELD_ERROR_H_

// Errors about one field of a request.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/error_reason.h"

namespace qpbroker::rpc {

inline absl::Status InvalidField(absl::string_view field, absl::string_view why) {
  return MakeError(v1::REASON_INVALID_FIELD, absl::StrCat(field, ": ", why),
                   {{"field", std::string(field)}});
}

inline absl::Status MissingField(absl::string_view field) {
  return MakeError(v1::REASON_MISSING_FIELD, absl::StrCat(field, " is missing"),
                   {{"field", std::string(field)}});
}

inline absl::Status UnknownEnum(absl::string_view field, int value) {
  return MakeError(v1::REASON_UNKNOWN_ENUM,
                   absl::StrCat(field, ": this daemon does not know the value ", value),
                   {{"field", std::string(field)}});
}

}  // namespace qpbroker::rpc

#endif  // QPBROKER_DAEMON_RPC_FIELD_ERROR_H_
