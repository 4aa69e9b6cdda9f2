// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_COMMON_ERROR_REASON_H_
#define QPBROKER_COMMON_ERROR_REASON_H_

// Every error of qpbroker is an absl::Status made here: a reason, the canonical code that the one
// table gives it, a sentence, and metadata. It travels as google.rpc.ErrorInfo and is read back by
// ReasonOf.
//
//   return MakeError(v1::REASON_QP_NOT_FOUND, "no QP 0x800012 in job-7", {{"qp_num", "0x800012"}});

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/rpc/error_details.pb.h"
#include "qpbroker/v1/errors.pb.h"

namespace qpbroker {

// One line of the table.
struct ReasonEntry {
  v1::Reason reason;
  absl::string_view name;  // Without the prefix REASON_.
  absl::StatusCode code;
  int errno_value;         // What a C caller gets.
  absl::string_view text;  // What it means, for a person who never saw it.
  absl::string_view hint;  // What to do next.
};

// All reasons but REASON_UNSPECIFIED, by number.
absl::Span<const ReasonEntry> ReasonTable();

// The entry of `reason`; that of REASON_INTERNAL for a number that is not in the table.
const ReasonEntry& ReasonEntryOf(v1::Reason reason);

using ErrorMetadata = std::vector<std::pair<absl::string_view, std::string>>;

// A status with the code of `reason`. `message` says what happened; empty: the table's text.
[[nodiscard]] absl::Status MakeError(v1::Reason reason, absl::string_view message = {},
                                     const ErrorMetadata& metadata = {});

// The same for a failed system or verbs call: adds "call" and "errno" (e.g. "EBUSY") to the
// metadata and the errno's text to the message.
[[nodiscard]] absl::Status ErrnoError(v1::Reason reason, int errno_value, absl::string_view call,
                                      ErrorMetadata metadata = {});

// The ErrorInfo that a status carries.
std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const absl::Status& status);

// Puts `info` into `status` (which must not be OK).
void SetErrorInfo(const google::rpc::ErrorInfo& info, absl::Status& status);

// The reason that a status carries; REASON_UNSPECIFIED for OK and for foreign errors.
v1::Reason ReasonOf(const absl::Status& status);

// The errno that ErrnoError put into a status, as a name ("EBUSY"); empty if there is none.
std::string ErrnoNameOf(const absl::Status& status);

}  // namespace qpbroker

#endif  // QPBROKER_COMMON_ERROR_REASON_H_
