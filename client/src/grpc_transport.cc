// SPDX-License-Identifier: Apache-2.0
// A transport of grpc++. The socket is connected by us, because gRPC's own connect cannot be given
// a deadline or an errno to report, and its reconnect would make a connection without a session
// behind our back: a channel made from a descriptor never reconnects.

#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/rpc_method.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "client/src/fork_guard.h"
#include "client/src/transport.h"
#include "common/error_reason.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace qpbroker::client {
namespace {

using google::protobuf::MessageLite;

// Of this process's first transport. gRPC does not survive a fork: its threads are missing in the
// child and their locks may be held for ever.
const ForkGuard& ProcessGuard() {
  static const ForkGuard guard;
  return guard;
}

// The ErrorInfo in the trailer grpc-status-details-bin, if there is one.
bool FindErrorInfo(const grpc::Status& status, google::rpc::ErrorInfo& info) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return false;
  for (const google::protobuf::Any& detail : details.details()) {
    if (detail.Is<google::rpc::ErrorInfo>()) return detail.UnpackTo(&info);
  }
  return false;
}

// An error that no qpbroker daemon made: gRPC's own.
absl::Status ConnectionError(const grpc::Status& status) {
  switch (status.error_code()) {
    // We never cancel, so a cancelled call means that the other end reset it: it is going away.
    // "Stream removed", which is UNKNOWN, is what gRPC says when a connection breaks under a call.
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::UNAVAILABLE:
      return MakeError(v1::REASON_DAEMON_UNREACHABLE, "the connection to the daemon is lost",
                       {{"detail", status.error_message()},
                        {"hint", "connect again; if that fails, is qpbrokerd running?"}});
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return MakeError(v1::REASON_DEADLINE_EXCEEDED);
    case grpc::StatusCode::INTERNAL:
      return MakeError(v1::REASON_PROTOCOL_VIOLATION, "the daemon's answer cannot be understood",
                       {{"detail", status.error_message()}});
    default:
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message());
  }
}

absl::Status ToAbsl(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::ErrorInfo info;
  if (!FindErrorInfo(status, info)) return ConnectionError(status);
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  SetErrorInfo(info, result);
  return result;
}

gpr_timespec ToGrpc(Deadline deadline) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(Remaining(deadline).count(), GPR_TIMESPAN));
}

class GrpcTransport final : public Transport {
 public:
  explicit GrpcTransport(UniqueFd socket) : fd_(socket.get()) {
    fstat(fd_, &identity_);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    // gRPC owns the descriptor from here on.
    channel_ = grpc::CreateCustomInsecureChannelFromFd("qpbroker", socket.release(), arguments);
  }

  absl::Status Call(absl::string_view method, const MessageLite& request, MessageLite* response,
                    Deadline deadline) override {
    grpc::ClientContext context;
    context.set_deadline(ToGrpc(deadline));
    // Not the path: a percent-encoded path as authority is refused by some servers.
    context.set_authority("localhost");
    std::string name(method);
    grpc::internal::RpcMethod rpc(name.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
    // What generated stubs call; this way one function serves all methods, without a stub.
    return ToAbsl(grpc::internal::BlockingUnaryCall<MessageLite, MessageLite>(
        channel_.get(), rpc, &context, request, response));
  }

  // The channel's destructor would shut the connection down, for the parent too; close(2) does not.
  // If gRPC had closed the descriptor before the fork, its number may be somebody else's by now.
  void AbandonInChild() override {
    struct stat now {};
    if (fstat(fd_, &now) == 0 && now.st_dev == identity_.st_dev && now.st_ino == identity_.st_ino) {
      close(fd_);
    }
  }

 private:
  int fd_;
  struct stat identity_ {};
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace

absl::Status CheckTransportUsable() {
  return ProcessGuard().Check("gRPC cannot be used in a child of a process that used it");
}

std::unique_ptr<Transport> MakeTransport(UniqueFd socket) {
  return std::make_unique<GrpcTransport>(std::move(socket));
}

}  // namespace qpbroker::client
