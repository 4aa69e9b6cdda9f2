// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_CONNECTION_H_
#define QPBROKER_CLIENT_SRC_CONNECTION_H_

// What a Client and its leases share: the session, the gRPC connection that is attached to it, and
// the refusal to work in a forked child.
//
// Threads: any number.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/src/deadline.h"
#include "client/src/fork_guard.h"
#include "client/src/session_channel.h"
#include "client/src/transport.h"
#include "common/unique_fd.h"
#include "google/protobuf/message_lite.h"
#include "qpbroker/v1/broker.pb.h"

namespace qpbroker::client {

class Connection {
 public:
  // Connects both sockets of `runtime_dir` and joins them.
  static absl::StatusOr<std::shared_ptr<Connection>> Open(const std::string& runtime_dir,
                                                          Deadline deadline);

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // A call of BrokerService, e.g. "WhoAmI", that delivers nothing.
  absl::Status Call(absl::string_view method, const google::protobuf::MessageLite& request,
                    google::protobuf::MessageLite* response, Deadline deadline);

  // A call that may answer with a grant: then the grant's descriptors, one of each kind in `kinds`;
  // otherwise none. When it fails, whatever was granted is released.
  template <typename Request, typename Response>
  absl::StatusOr<std::vector<UniqueFd>> CallForFds(absl::string_view method, const Request& request,
                                                   Response* response,
                                                   const std::vector<v1::FdKind>& kinds,
                                                   Deadline deadline) {
    if (absl::Status status = CheckProcess(); !status.ok()) return status;
    absl::StatusOr<SessionChannel::Expectation> expectation =
        session_->Expect(request.request_id());
    if (!expectation.ok()) return expectation.status();
    absl::Status status = Call(method, request, response, deadline);
    if (!status.ok()) return status;
    if (!response->has_grant()) return std::vector<UniqueFd>();
    return expectation->Take(response->grant().grant_id(), kinds, deadline);
  }

  // For an application's event loop; see Client.
  int session_fd() const { return session_->fd(); }
  absl::Status ProcessSession();

 private:
  Connection(std::unique_ptr<SessionChannel> session, std::unique_ptr<Transport> transport);

  absl::Status CheckProcess() const;

  const ForkGuard guard_;
  std::unique_ptr<SessionChannel> session_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_CONNECTION_H_
