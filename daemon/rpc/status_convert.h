// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RPC_STATUS_CONVERT_H_
#define QPBROKER_DAEMON_RPC_STATUS_CONVERT_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace qpbroker::rpc {

// The status as gRPC sends it: the same code and message, and a google.rpc.Status with exactly one
// ErrorInfo as details. An error without reason is a defect of ours and becomes INTERNAL.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace qpbroker::rpc

#endif  // QPBROKER_DAEMON_RPC_STATUS_CONVERT_H_
