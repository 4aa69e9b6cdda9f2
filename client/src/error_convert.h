// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_ERROR_CONVERT_H_
#define QPBROKER_CLIENT_SRC_ERROR_CONVERT_H_

#include "absl/status/status.h"
#include "qpbroker/error.h"

namespace qpbroker::client {

// The library's inner error as users see it. `status` must not be OK.
Error ToError(const absl::Status& status);

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_ERROR_CONVERT_H_
