// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <string>
#include <utility>

#include "common/error_reason.h"
#include "common/version.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/page_token.h"
#include "daemon/rpc/services.h"
#include "daemon/rpc/status_convert.h"
#include "qpbroker/v1/broker.grpc.pb.h"

namespace qpbroker::rpc {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

class BrokerServiceImpl final : public v1::BrokerService::CallbackService {
 public:
  explicit BrokerServiceImpl(CallerContext& context) : context_(context) {}

  ServerUnaryReactor* WhoAmI(CallbackServerContext* call, const v1::WhoAmIRequest*,
                             v1::WhoAmIResponse* response) override {
    const core::Caller& caller = context_.caller();
    response->set_uid(caller.identity.uid);
    response->set_gid(caller.identity.gid);
    response->mutable_groups()->Add(caller.identity.groups.begin(), caller.identity.groups.end());
    response->set_pid(caller.identity.pid);
    if (caller.session) response->set_session(SessionName(*caller.session));
    response->set_generation(core::FormatGeneration(generation()));
    response->set_version(kVersion);
    return Finish(call, absl::OkStatus());
  }

  ServerUnaryReactor* Attach(CallbackServerContext* call, const v1::AttachRequest* request,
                             v1::AttachResponse* response) override {
    absl::Status valid = CheckNonce(*request);
    if (!valid.ok()) return Finish(call, valid);
    absl::StatusOr<core::SessionId> session = context_.Attach(request->nonce());
    if (session.ok()) response->set_session(SessionName(*session));
    return Finish(call, session.status());
  }

  // A page of devices: there are few, so all are asked and the page is cut out.
  ServerUnaryReactor* ListDevices(CallbackServerContext* call,
                                  const v1::ListDevicesRequest* request,
                                  v1::ListDevicesResponse* response) override {
    absl::StatusOr<core::PageRequest> page =
        ToPage("devices", request->page_size(), request->page_token());
    if (!page.ok()) return Finish(call, page.status());
    std::shared_ptr<CallerContext> kept = context_.Keep();
    if (kept == nullptr) return Finish(call, Ended());
    ServerUnaryReactor* reactor = call->DefaultReactor();
    broker().ListDevices(Answer<std::vector<core::DeviceView>>(
        std::move(kept), reactor,
        [page = *page, response](const std::vector<core::DeviceView>& devices) {
          const size_t end = std::min<size_t>(devices.size(), page.after + page.size);
          for (size_t i = page.after; i < end; ++i) *response->add_devices() = ToProto(devices[i]);
          if (end < devices.size()) response->set_next_page_token(ToPageToken("devices", end));
        }));
    return reactor;
  }

  ServerUnaryReactor* OpenXrcd(CallbackServerContext* call, const v1::OpenXrcdRequest* request,
                               v1::OpenXrcdResponse* response) override {
    absl::StatusOr<core::OpenXrcdCall> open = ToCall(*request, context_.caller());
    if (!open.ok()) return Finish(call, open.status());
    std::shared_ptr<CallerContext> kept = context_.Keep();
    if (kept == nullptr) return Finish(call, Ended());
    ServerUnaryReactor* reactor = call->DefaultReactor();
    broker().OpenXrcd(
        context_.caller(), *std::move(open),
        Answer<core::OpenXrcdAnswer>(
            std::move(kept), reactor, [this, response](const core::OpenXrcdAnswer& answer) {
              *response->mutable_grant() = ToGrant(answer.lease, generation());
              *response->mutable_xrcd() = ToProto(answer.xrcd, generation());
              response->set_created(answer.created);
            }));
    return reactor;
  }

  ServerUnaryReactor* CreateQp(CallbackServerContext* call, const v1::CreateQpRequest* request,
                               v1::CreateQpResponse* response) override {
    absl::StatusOr<core::CreateQpCall> create = ToCall(*request);
    if (!create.ok()) return Finish(call, create.status());
    std::shared_ptr<CallerContext> kept = context_.Keep();
    if (kept == nullptr) return Finish(call, Ended());
    ServerUnaryReactor* reactor = call->DefaultReactor();
    broker().CreateQp(
        context_.caller(), *std::move(create),
        Answer<core::CreateQpAnswer>(
            std::move(kept), reactor, [this, response](const core::CreateQpAnswer& answer) {
              if (answer.lease) {
                *response->mutable_grant() = ToGrant(*answer.lease, generation());
              }
              *response->mutable_qp() = ToProto(answer.qp, generation());
              response->set_created(answer.created);
              *response->mutable_endpoint() = ToProto(answer.endpoint);
            }));
    return reactor;
  }

  ServerUnaryReactor* OpenQp(CallbackServerContext* call, const v1::OpenQpRequest* request,
                             v1::OpenQpResponse* response) override {
    absl::StatusOr<core::OpenQpCall> open = ToCall(*request);
    if (!open.ok()) return Finish(call, open.status());
    absl::StatusOr<core::OpenQpAnswer> answer = broker().OpenQp(context_.caller(), *open);
    if (answer.ok()) {
      *response->mutable_grant() = ToGrant(answer->lease, generation());
      *response->mutable_qp() = ToProto(answer->qp, generation());
    }
    return Finish(call, answer.status());
  }

  ServerUnaryReactor* ModifyQp(CallbackServerContext* call, const v1::ModifyQpRequest* request,
                               v1::ModifyQpResponse* response) override {
    absl::StatusOr<core::ModifyQpCall> modify = ToCall(*request);
    if (!modify.ok()) return Finish(call, modify.status());
    std::shared_ptr<CallerContext> kept = context_.Keep();
    if (kept == nullptr) return Finish(call, Ended());
    ServerUnaryReactor* reactor = call->DefaultReactor();
    broker().ModifyQp(
        context_.caller(), *std::move(modify),
        Answer<verbs::QpState>(std::move(kept), reactor, [response](verbs::QpState state) {
          response->set_state(ToProto(state));
        }));
    return reactor;
  }

  ServerUnaryReactor* ConnectQp(CallbackServerContext* call, const v1::ConnectQpRequest* request,
                                v1::ConnectQpResponse* response) override {
    absl::StatusOr<core::ConnectQpCall> connect = ToCall(*request);
    if (!connect.ok()) return Finish(call, connect.status());
    std::shared_ptr<CallerContext> kept = context_.Keep();
    if (kept == nullptr) return Finish(call, Ended());
    ServerUnaryReactor* reactor = call->DefaultReactor();
    broker().ConnectQp(
        context_.caller(), *std::move(connect),
        Answer<core::ConnectQpAnswer>(std::move(kept), reactor,
                                      [response](const core::ConnectQpAnswer& answer) {
                                        response->set_already_connected(answer.already_connected);
                                        *response->mutable_endpoint() = ToProto(answer.endpoint);
                                      }));
    return reactor;
  }

  ServerUnaryReactor* QueryQp(CallbackServerContext* call, const v1::QueryQpRequest* request,
                              v1::QueryQpResponse* response) override {
    absl::StatusOr<core::QpName> name = core::ParseQpName("qp", request->qp());
    if (!name.ok()) return Finish(call, name.status());
    std::shared_ptr<CallerContext> kept = context_.Keep();
    if (kept == nullptr) return Finish(call, Ended());
    ServerUnaryReactor* reactor = call->DefaultReactor();
    broker().QueryQp(
        context_.caller(), *name,
        Answer<core::QueryQpAnswer>(std::move(kept), reactor,
                                    [this, response](const core::QueryQpAnswer& answer) {
                                      *response->mutable_qp() = ToProto(answer.qp, generation());
                                      *response->mutable_attributes() = ToProto(answer);
                                    }));
    return reactor;
  }

  ServerUnaryReactor* CloseQp(CallbackServerContext* call, const v1::CloseQpRequest* request,
                              v1::CloseQpResponse* response) override {
    return Close(call, request->lease(), &core::Broker::CloseQp, response);
  }

  ServerUnaryReactor* CloseXrcd(CallbackServerContext* call, const v1::CloseXrcdRequest* request,
                                v1::CloseXrcdResponse* response) override {
    return Close(call, request->lease(), &core::Broker::CloseXrcd, response);
  }

  ServerUnaryReactor* DestroyQp(CallbackServerContext* call, const v1::DestroyQpRequest* request,
                                v1::DestroyQpResponse* response) override {
    absl::StatusOr<core::QpName> name = core::ParseQpName("qp", request->qp());
    if (!name.ok()) return Finish(call, name.status());
    std::shared_ptr<CallerContext> kept = context_.Keep();
    if (kept == nullptr) return Finish(call, Ended());
    ServerUnaryReactor* reactor = call->DefaultReactor();
    broker().DestroyQp(
        context_.caller(), *name,
        Answer<core::DestroyQpAnswer>(std::move(kept), reactor,
                                      [response](const core::DestroyQpAnswer& answer) {
                                        response->set_remaining_leases(answer.remaining_leases);
                                        response->set_lingering(answer.lingering);
                                      }));
    return reactor;
  }

  ServerUnaryReactor* DestroyXrcd(CallbackServerContext* call,
                                  const v1::DestroyXrcdRequest* request,
                                  v1::DestroyXrcdResponse* response) override {
    absl::StatusOr<core::XrcdName> name = core::ParseXrcdName("xrcd", request->xrcd());
    if (!name.ok()) return Finish(call, name.status());
    absl::StatusOr<core::DestroyXrcdAnswer> answer = broker().DestroyXrcd(context_.caller(), *name);
    if (answer.ok()) {
      response->set_existed(answer->existed);
      for (const core::LeaseView& lease : answer->holders) {
        *response->add_holders() = ToProto(lease, generation());
      }
    }
    return Finish(call, answer.status());
  }

  ServerUnaryReactor* ListDomainQps(CallbackServerContext* call,
                                    const v1::ListDomainQpsRequest* request,
                                    v1::ListDomainQpsResponse* response) override {
    absl::StatusOr<core::XrcdName> name = core::ParseXrcdName("xrcd", request->xrcd());
    if (!name.ok()) return Finish(call, name.status());
    absl::Status valid = CheckKeyPrefix(*request);
    if (!valid.ok()) return Finish(call, valid);
    absl::StatusOr<core::PageRequest> page =
        ToPage("domain-qps", request->page_size(), request->page_token());
    if (!page.ok()) return Finish(call, page.status());
    absl::StatusOr<core::Page<core::QpView>> qps =
        broker().ListDomainQps(context_.caller(), *name, request->key_prefix(), *page);
    if (qps.ok()) {
      for (const core::QpView& qp : qps->entries) *response->add_qps() = ToProto(qp, generation());
      response->set_next_page_token(ToPageToken("domain-qps", qps->next_after));
    }
    return Finish(call, qps.status());
  }

 private:
  core::Broker& broker() const { return context_.broker(); }
  core::Generation generation() const { return context_.broker().generation(); }
  std::string SessionName(core::SessionId id) const {
    return core::FormatSessionName(id, generation());
  }

  static ServerUnaryReactor* Finish(CallbackServerContext* call, const absl::Status& status) {
    ServerUnaryReactor* reactor = call->DefaultReactor();
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }

  // The connection ended before the call began: nobody reads this.
  static absl::Status Ended() {
    return MakeError(v1::REASON_SHUTTING_DOWN, "the connection has ended");
  }

  // What finishes a call whose answer comes from another thread. It keeps the connection until
  // then.
  template <class T, class Fill>
  core::Done<T> Answer(std::shared_ptr<CallerContext> kept, ServerUnaryReactor* reactor,
                       Fill fill) {
    return
        [kept = std::move(kept), reactor, fill = std::move(fill)](const absl::StatusOr<T>& answer) {
          if (answer.ok()) fill(*answer);
          reactor->Finish(ToGrpcStatus(answer.status()));
        };
  }

  using CloseMethod = absl::StatusOr<uint32_t> (core::Broker::*)(const core::Caller&,
                                                                 const core::LeaseName&);
  template <class Response>
  ServerUnaryReactor* Close(CallbackServerContext* call, const std::string& lease,
                            CloseMethod method, Response* response) {
    absl::StatusOr<core::LeaseName> name = core::ParseLeaseName("lease", lease);
    if (!name.ok()) return Finish(call, name.status());
    absl::StatusOr<uint32_t> remaining = (broker().*method)(context_.caller(), *name);
    if (remaining.ok()) response->set_remaining_leases(*remaining);
    return Finish(call, remaining.status());
  }

  CallerContext& context_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewBrokerService(CallerContext& context) {
  return std::make_unique<BrokerServiceImpl>(context);
}

}  // namespace qpbroker::rpc
