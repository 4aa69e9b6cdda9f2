// SPDX-License-Identifier: Apache-2.0
#include "qpbroker/error.h"

#include <cstdio>
#include <cstdlib>

namespace qpbroker {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCancelled:
      return "CANCELLED";
    case ErrorCode::kUnknown:
      return "UNKNOWN";
    case ErrorCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case ErrorCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case ErrorCode::kNotFound:
      return "NOT_FOUND";
    case ErrorCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case ErrorCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case ErrorCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case ErrorCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case ErrorCode::kAborted:
      return "ABORTED";
    case ErrorCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case ErrorCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case ErrorCode::kInternal:
      return "INTERNAL";
    case ErrorCode::kUnavailable:
      return "UNAVAILABLE";
    case ErrorCode::kDataLoss:
      return "DATA_LOSS";
    case ErrorCode::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

std::string Error::ToString() const {
  std::string text = message.empty() ? "failed" : message;
  text += " [";
  text += ErrorCodeName(code);
  if (!reason.empty()) text += " " + reason;
  for (const auto& [key, value] : metadata) text += ", " + key + "=" + value;
  text += "]";
  if (!hint.empty()) text += "; " + hint;
  return text;
}

namespace internal {

void AbortOnError(const Error& error) {
  std::fprintf(stderr, "qpbroker: value of a failed Result: %s\n", error.ToString().c_str());
  std::abort();
}

void AbortOnSuccess() {
  std::fprintf(stderr, "qpbroker: error of a successful Result\n");
  std::abort();
}

}  // namespace internal
}  // namespace qpbroker
