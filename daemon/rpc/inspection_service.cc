// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "daemon/rpc/convert.h"
#include "daemon/rpc/page_token.h"
#include "daemon/rpc/services.h"
#include "daemon/rpc/status_convert.h"
#include "qpbroker/v1/inspection.grpc.pb.h"

namespace qpbroker::rpc {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

class InspectionServiceImpl final : public v1::InspectionService::CallbackService {
 public:
  explicit InspectionServiceImpl(CallerContext& context) : context_(context) {}

  ServerUnaryReactor* ListXrcds(CallbackServerContext* call, const v1::ListXrcdsRequest* request,
                                v1::ListXrcdsResponse* response) override {
    return List(call, "xrcds", *request, *response, &core::Broker::ListXrcds,
                [response] { return response->add_xrcds(); });
  }
  ServerUnaryReactor* ListQps(CallbackServerContext* call, const v1::ListQpsRequest* request,
                              v1::ListQpsResponse* response) override {
    return List(call, "qps", *request, *response, &core::Broker::ListQps,
                [response] { return response->add_qps(); });
  }
  ServerUnaryReactor* ListLeases(CallbackServerContext* call, const v1::ListLeasesRequest* request,
                                 v1::ListLeasesResponse* response) override {
    return List(call, "leases", *request, *response, &core::Broker::ListLeases,
                [response] { return response->add_leases(); });
  }
  ServerUnaryReactor* ListSessions(CallbackServerContext* call,
                                   const v1::ListSessionsRequest* request,
                                   v1::ListSessionsResponse* response) override {
    return List(call, "sessions", *request, *response, &core::Broker::ListSessions,
                [response] { return response->add_sessions(); });
  }

 private:
  template <class Request, class Response, class View, class Add>
  ServerUnaryReactor* List(CallbackServerContext* call, const char* list, const Request& request,
                           Response& response,
                           core::Page<View> (core::Broker::*method)(const core::Caller&,
                                                                    const core::PageRequest&),
                           const Add& add) {
    ServerUnaryReactor* reactor = call->DefaultReactor();
    absl::StatusOr<core::PageRequest> page =
        ToPage(list, request.page_size(), request.page_token());
    if (page.ok()) {
      const core::Generation generation = context_.broker().generation();
      core::Page<View> entries = (context_.broker().*method)(context_.caller(), *page);
      for (const View& entry : entries.entries) *add() = ToProto(entry, generation);
      response.set_next_page_token(ToPageToken(list, entries.next_after));
    }
    reactor->Finish(ToGrpcStatus(page.status()));
    return reactor;
  }

  CallerContext& context_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewInspectionService(CallerContext& context) {
  return std::make_unique<InspectionServiceImpl>(context);
}

}  // namespace qpbroker::rpc
