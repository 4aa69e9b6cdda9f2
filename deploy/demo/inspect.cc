// SPDX-License-Identifier: Apache-2.0
//
// Prints what InspectionService shows on a socket, as text: the demo's stand-in where grpcurl
// cannot be had.
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <cstdio>
#include <memory>
#include <string>

#include "qpbroker/v1/inspection.grpc.pb.h"

namespace {

using qpbroker::v1::InspectionService;

template <class Request, class Response>
Response Call(InspectionService::Stub& stub,
              grpc::Status (InspectionService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Response*)) {
  grpc::ClientContext context;
  Response response;
  const grpc::Status status = (stub.*method)(&context, Request(), &response);
  if (!status.ok()) {
    std::fprintf(stderr, "inspect: %s\n", status.error_message().c_str());
    std::exit(1);
  }
  return response;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: inspect SOCKET\n");
    return 2;
  }
  // gRPC makes an authority of a socket's path that not every server takes.
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  auto stub = InspectionService::NewStub(grpc::CreateCustomChannel(
      std::string("unix:") + argv[1], grpc::InsecureChannelCredentials(), arguments));
  const auto xrcds = Call(*stub, &InspectionService::Stub::ListXrcds);
  for (const auto& xrcd : xrcds.xrcds()) {
    std::printf("domain %s  mode %04o  gid %u  leases %u  qps %u\n", xrcd.name().c_str(),
                xrcd.mode(), xrcd.gid(), xrcd.lease_count(), xrcd.qp_count());
  }
  const auto qps = Call(*stub, &InspectionService::Stub::ListQps);
  for (const auto& qp : qps.qps()) {
    std::printf("qp     %s  key %s  leases %u%s\n", qp.name().c_str(), qp.key().c_str(),
                qp.lease_count(), qp.lingering() ? "  lingering" : "");
  }
  const auto leases = Call(*stub, &InspectionService::Stub::ListLeases);
  for (const auto& lease : leases.leases()) {
    std::printf("lease  %s  uid %u  pid %d  on %s\n", lease.name().c_str(), lease.uid(),
                lease.pid(), lease.target().c_str());
  }
  return 0;
}
