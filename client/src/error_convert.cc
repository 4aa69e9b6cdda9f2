// SPDX-License-Identifier: Apache-2.0
#include "client/src/error_convert.h"

#include <optional>
#include <string>

#include "common/error_reason.h"
#include "google/rpc/error_details.pb.h"

namespace qpbroker::client {

Error ToError(const absl::Status& status) {
  Error error;
  error.code = static_cast<ErrorCode>(status.code());
  error.message = std::string(status.message());
  std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  if (!info) return error;
  error.reason = info->reason();
  error.metadata.insert(info->metadata().begin(), info->metadata().end());
  // The hint travels as metadata; for users it has a place of its own.
  if (auto hint = error.metadata.extract("hint")) error.hint = std::move(hint.mapped());
  return error;
}

}  // namespace qpbroker::client
