// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_CONVERT_H_
#define QPBROKER_CLIENT_SRC_CONVERT_H_

// Between the public structs and the API's messages.

#include "qpbroker/client.h"
#include "qpbroker/v1/broker.pb.h"
#include "qpbroker/v1/resources.pb.h"

namespace qpbroker::client {

void ToProto(const OpenXrcdOptions& options, v1::OpenXrcdRequest& request);
void ToProto(const CreateQpOptions& options, v1::CreateQpRequest& request);
void ToProto(const ConnectQpOptions& options, v1::ConnectQpRequest& request);
void ToProto(const QpAttributes& attributes, v1::QpAttributes& message);

// An enum value that this library does not know becomes kUnknown, or the default; a GID that is not
// 16 bytes long becomes all zero.
Identity FromProto(const v1::WhoAmIResponse& message);
Device FromProto(const v1::Device& message);
XrcdInfo FromProto(const v1::Xrcd& message);
QpInfo FromProto(const v1::Qp& message);
LeaseInfo FromProto(const v1::Lease& message);
QpEndpoint FromProto(const v1::QpEndpoint& message);
QpAttributes FromProto(const v1::QpAttributes& message);
QpState FromProto(v1::QpState state);

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_CONVERT_H_
