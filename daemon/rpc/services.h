// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RPC_SERVICES_H_
#define QPBROKER_DAEMON_RPC_SERVICES_H_

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "daemon/rpc/caller_context.h"

namespace qpbroker::rpc {

// qpbroker.v1.BrokerService for one connection: translate, delegate to the broker, translate back.
// `context` must outlive the service.
std::unique_ptr<grpc::Service> NewBrokerService(CallerContext& context);

// qpbroker.v1.InspectionService likewise.
std::unique_ptr<grpc::Service> NewInspectionService(CallerContext& context);

}  // namespace qpbroker::rpc

#endif  // QPBROKER_DAEMON_RPC_SERVICES_H_
