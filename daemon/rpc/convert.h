// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RPC_CONVERT_H_
#define QPBROKER_DAEMON_RPC_CONVERT_H_

// Between the wire format and the core's calls. Everything that a client sends is checked here,
// field by field: MISSING_FIELD, INVALID_FIELD, UNKNOWN_ENUM with metadata "field". What comes out
// of it holds to the limits that the .proto files state.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/core/calls.h"
#include "daemon/core/identity.h"
#include "qpbroker/v1/broker.pb.h"
#include "qpbroker/v1/inspection.pb.h"

namespace qpbroker::rpc {

// ---- Requests.

absl::StatusOr<core::OpenXrcdCall> ToCall(const v1::OpenXrcdRequest& request,
                                          const core::Caller& caller);
absl::StatusOr<core::CreateQpCall> ToCall(const v1::CreateQpRequest& request);
absl::StatusOr<core::OpenQpCall> ToCall(const v1::OpenQpRequest& request);
absl::StatusOr<core::ModifyQpCall> ToCall(const v1::ModifyQpRequest& request);
absl::StatusOr<core::ConnectQpCall> ToCall(const v1::ConnectQpRequest& request);
absl::Status CheckNonce(const v1::AttachRequest& request);
absl::Status CheckKeyPrefix(const v1::ListDomainQpsRequest& request);

// ---- Answers.

v1::Device ToProto(const core::DeviceView& device);
v1::Xrcd ToProto(const core::XrcdView& xrcd, core::Generation generation);
v1::Qp ToProto(const core::QpView& qp, core::Generation generation);
v1::Lease ToProto(const core::LeaseView& lease, core::Generation generation);
v1::Session ToProto(const core::SessionView& session, core::Generation generation);
v1::QpEndpoint ToProto(const core::QpEndpoint& endpoint);
v1::QpState ToProto(verbs::QpState state);
v1::QpAttributes ToProto(const core::QueryQpAnswer& answer);
v1::Grant ToGrant(core::LeaseId lease, core::Generation generation);

}  // namespace qpbroker::rpc

#endif  // QPBROKER_DAEMON_RPC_CONVERT_H_
