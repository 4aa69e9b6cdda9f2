// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_TRANSPORT_H_
#define QPBROKER_CLIENT_SRC_TRANSPORT_H_

// The seam to whatever speaks gRPC's wire protocol. Only its implementation may include gRPC.

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/src/deadline.h"
#include "common/unique_fd.h"
#include "google/protobuf/message_lite.h"

namespace qpbroker::client {

// A connection to api.sock. May be used by several threads at once.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // One unary call of `method`, e.g. "/qpbroker.v1.BrokerService/WhoAmI". Blocks until the answer,
  // an error or the deadline. An error of the daemon's carries its ErrorInfo; one of the
  // connection's is DAEMON_UNREACHABLE, DEADLINE_EXCEEDED or PROTOCOL_VIOLATION.
  virtual absl::Status Call(absl::string_view method, const google::protobuf::MessageLite& request,
                            google::protobuf::MessageLite* response, Deadline deadline) = 0;

  // In a forked child, instead of the destructor: lets go of this process's copy of the connection
  // without touching the parent's. Afterwards the object must neither be used nor destroyed.
  virtual void AbandonInChild() = 0;

 protected:
  Transport() = default;
};

// OK, or NOT_ATTACHED in the child of a process that had made a transport: this one cannot.
[[nodiscard]] absl::Status CheckTransportUsable();

// A transport over a connected, non-blocking stream socket.
std::unique_ptr<Transport> MakeTransport(UniqueFd socket);

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_TRANSPORT_H_
