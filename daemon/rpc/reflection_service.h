// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RPC_REFLECTION_SERVICE_H_
#define QPBROKER_DAEMON_RPC_REFLECTION_SERVICE_H_

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "absl/types/span.h"

namespace qpbroker::rpc {

// grpc.reflection.v1.ServerReflection, for grpcurl and its like. `services` are the full names that
// it lists, string literals. Files of the whole program can be asked for; all are public.
std::unique_ptr<grpc::Service> NewReflectionService(absl::Span<const char* const> services);

// The same under its older name, grpc.reflection.v1alpha.ServerReflection.
std::unique_ptr<grpc::Service> NewReflectionServiceV1Alpha(absl::Span<const char* const> services);

}  // namespace qpbroker::rpc

#endif  // QPBROKER_DAEMON_RPC_REFLECTION_SERVICE_H_
