// SPDX-License-Identifier: Apache-2.0
#include "client/src/connection.h"

#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/src/socket_io.h"
#include "common/error_reason.h"

namespace qpbroker::client {
namespace {

// What a forked child inherited and must not destroy, since the threads that were using it are not
// there to leave it whole. Kept reachable, so that it is no leak.
struct Inherited {
  std::unique_ptr<SessionChannel> session;
  std::unique_ptr<Transport> transport;
};

void KeepForEver(Inherited inherited) {
  static auto* kept = new std::vector<Inherited>;
  kept->push_back(std::move(inherited));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Connection>> Connection::Open(const std::string& runtime_dir,
                                                             Deadline deadline) {
  if (absl::Status status = CheckTransportUsable(); !status.ok()) return status;
  if (runtime_dir.empty()) {
    return MakeError(v1::REASON_INVALID_FIELD, "runtime_dir is empty", {{"field", "runtime_dir"}});
  }
  absl::StatusOr<std::unique_ptr<SessionChannel>> session =
      SessionChannel::Connect(absl::StrCat(runtime_dir, "/session.sock"), deadline);
  if (!session.ok()) return session.status();
  absl::StatusOr<UniqueFd> socket =
      ConnectUnix(absl::StrCat(runtime_dir, "/api.sock"), SOCK_STREAM, deadline);
  if (!socket.ok()) return socket.status();
  std::shared_ptr<Connection> connection(
      new Connection(*std::move(session), MakeTransport(*std::move(socket))));
  v1::AttachRequest request;
  request.set_nonce(connection->session_->nonce());
  v1::AttachResponse response;
  absl::Status status = connection->Call("Attach", request, &response, deadline);
  if (!status.ok()) return status;
  return connection;
}

Connection::Connection(std::unique_ptr<SessionChannel> session,
                       std::unique_ptr<Transport> transport)
    : session_(std::move(session)), transport_(std::move(transport)) {}

Connection::~Connection() {
  if (!guard_.InChild()) return;
  session_->AbandonInChild();
  transport_->AbandonInChild();
  KeepForEver({std::move(session_), std::move(transport_)});
}

absl::Status Connection::Call(absl::string_view method,
                              const google::protobuf::MessageLite& request,
                              google::protobuf::MessageLite* response, Deadline deadline) {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  if (Expired(deadline)) return MakeError(v1::REASON_DEADLINE_EXCEEDED);
  // Closes what came late for earlier calls. Whether the session lives is no matter to most calls,
  // and those that deliver descriptors find out by themselves.
  session_->Drain().IgnoreError();
  return transport_->Call(absl::StrCat("/qpbroker.v1.BrokerService/", method), request, response,
                          deadline);
}

absl::Status Connection::ProcessSession() {
  if (absl::Status status = CheckProcess(); !status.ok()) return status;
  return session_->Drain();
}

absl::Status Connection::CheckProcess() const {
  return guard_.Check("this Client was made before a fork, by the parent process");
}

}  // namespace qpbroker::client
