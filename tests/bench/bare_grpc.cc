// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <grpcpp/support/server_callback.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "qpbroker/v1/broker.grpc.pb.h"
#include "tests/bench/contestants.h"
#include "tests/bench/sockets.h"

namespace qpbroker::bench {
namespace {

// Answers as shortly as the broker does.
class EchoService final : public v1::BrokerService::CallbackService {
  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext* context, const v1::WhoAmIRequest*,
                                   v1::WhoAmIResponse* response) override {
    response->set_uid(getuid());
    response->set_generation("0123456789ab");
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int ServeBareGrpc(const std::string& socket) {
  const int listener = Listen(socket, SOCK_STREAM);
  EchoService service;
  std::vector<std::unique_ptr<grpc::Server>> servers;
  while (true) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) Die("accept4");
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    servers.push_back(builder.BuildAndStart());
    grpc::AddInsecureChannelFromFd(servers.back().get(), connection);
  }
}

Contestant BareGrpc(const std::string& socket) {
  const int connection = Connect(socket, SOCK_STREAM);
  fcntl(connection, F_SETFL, O_NONBLOCK);
  std::shared_ptr<v1::BrokerService::Stub> stub =
      v1::BrokerService::NewStub(grpc::CreateInsecureChannelFromFd("localhost", connection));
  return {"bare gRPC call", [stub] {
            grpc::ClientContext context;
            v1::WhoAmIResponse response;
            const grpc::Status status = stub->WhoAmI(&context, v1::WhoAmIRequest(), &response);
            if (!status.ok()) Die("bare gRPC: " + status.error_message());
          }};
}

}  // namespace qpbroker::bench
