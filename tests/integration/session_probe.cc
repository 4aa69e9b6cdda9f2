// SPDX-License-Identifier: Apache-2.0
//
// Plays with a session's nonce from several processes and uids; for the lab.
//
//   session_probe RUNTIME_DIR greet           prints the nonce of a new session and keeps it until
//   its
//                                             input ends
//   session_probe RUNTIME_DIR attach HEX...   attaches one connection by each nonce in turn and
//   prints
//                                             "OK" or the reason of each
//   session_probe RUNTIME_DIR open DEVICE     asks for descriptors without a session, prints the
//   reason
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "common/seqpacket_channel.h"
#include "common/unique_fd.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "qpbroker/v1/broker.grpc.pb.h"
#include "qpbroker/v1/session.pb.h"

namespace {

using namespace qpbroker;  // NOLINT: a probe of nothing but qpbroker.

std::string ReasonOf(const grpc::Status& status) {
  if (status.ok()) return "OK";
  google::rpc::Status rich;
  google::rpc::ErrorInfo info;
  if (!rich.ParseFromString(status.error_details()) || rich.details_size() != 1 ||
      !rich.details(0).UnpackTo(&info)) {
    return "an error without exactly one ErrorInfo: " + status.error_message();
  }
  return info.reason();
}

std::unique_ptr<v1::BrokerService::Stub> NewStub(const std::string& runtime_dir) {
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  return v1::BrokerService::NewStub(grpc::CreateCustomChannel(
      "unix:" + runtime_dir + "/api.sock", grpc::InsecureChannelCredentials(), arguments));
}

int Greet(const std::string& runtime_dir) {
  UniqueFd session(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (runtime_dir + "/session.sock").c_str(),
               sizeof(address.sun_path) - 1);
  if (connect(session.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return 1;
  ReceivedPacket received;
  v1::SessionPacket packet;
  if (ReceivePacket(session.get(), received) != 0 || !packet.ParseFromString(received.bytes)) {
    return 1;
  }
  std::printf("%s\n", absl::BytesToHexString(packet.greeting().nonce()).c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

int Attach(const std::string& runtime_dir, int count, char** nonces) {
  auto stub = NewStub(runtime_dir);
  for (int i = 0; i < count; ++i) {
    grpc::ClientContext context;
    v1::AttachRequest request;
    request.set_nonce(absl::HexStringToBytes(nonces[i]));
    v1::AttachResponse response;
    std::printf("%s\n", ReasonOf(stub->Attach(&context, request, &response)).c_str());
  }
  return 0;
}

int Open(const std::string& runtime_dir, const std::string& device) {
  grpc::ClientContext context;
  v1::OpenXrcdRequest request;
  request.set_device(device);
  request.set_name("probe");
  request.set_create(true);
  request.set_request_id("probe");
  v1::OpenXrcdResponse response;
  std::printf("%s\n",
              ReasonOf(NewStub(runtime_dir)->OpenXrcd(&context, request, &response)).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 2 ? argv[2] : "";
  if (verb == "greet") return Greet(argv[1]);
  if (verb == "attach") return Attach(argv[1], argc - 3, argv + 3);
  if (verb == "open" && argc == 4) return Open(argv[1], argv[3]);
  std::fprintf(stderr, "usage: session_probe RUNTIME_DIR greet | attach HEX... | open DEVICE\n");
  return 2;
}
