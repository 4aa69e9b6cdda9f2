// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/status_convert.h"

#include <string>

#include "common/error_reason.h"
#include "google/rpc/status.pb.h"

namespace qpbroker::rpc {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  if (!info) return ToGrpcStatus(MakeError(v1::REASON_INTERNAL, status.message()));
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(status.code()));
  rich.set_message(std::string(status.message()));
  rich.add_details()->PackFrom(*info);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), rich.message(),
                      rich.SerializeAsString());
}

}  // namespace qpbroker::rpc
