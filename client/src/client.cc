// SPDX-License-Identifier: Apache-2.0
// Each call: options to request, the call, answer to result. What is subtle is in connection.h (who
// may call) and session_channel.h (where the descriptors come from).
#include "qpbroker/client.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/src/connection.h"
#include "client/src/convert.h"
#include "client/src/error_convert.h"
#include "client/src/granted_xrcd.h"
#include "client/src/lease_state.h"
#include "client/src/request_id.h"
#include "common/error_reason.h"
#include "qpbroker/v1/broker.pb.h"

namespace qpbroker {
namespace {

using client::Connection;
using client::Deadline;
using client::DeadlineAfter;
using client::FromProto;
using client::LeaseState;
using client::LeaseTarget;
using client::ToError;
using client::ToProto;

// Rows of one page: of devices fewer, since one may have hundreds of GIDs and a message has 4 MiB.
constexpr uint32_t kDevicePage = 100;
constexpr uint32_t kQpPage = 1000;

struct Text {
  const char* field;
  std::string_view value;
};

// Every string of the API is ASCII, and one that is not UTF-8 would not even parse at the other
// end.
absl::Status CheckAscii(std::initializer_list<Text> texts) {
  for (const Text& text : texts) {
    if (std::all_of(text.value.begin(), text.value.end(),
                    [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
      continue;
    }
    return MakeError(v1::REASON_INVALID_FIELD, absl::StrCat(text.field, " has bytes beyond ASCII"),
                     {{"field", text.field}});
  }
  return absl::OkStatus();
}

std::string RequestIdOr(const std::string& given) {
  return given.empty() ? client::NewRequestId() : given;
}

Lease MakeLease(const std::shared_ptr<Connection>& connection, LeaseTarget target,
                const v1::Grant& grant, UniqueFd fd) {
  return Lease(std::make_shared<LeaseState>(connection, target, grant.lease(), std::move(fd)));
}

Error NoGrant() {
  return ToError(MakeError(v1::REASON_PROTOCOL_VIOLATION, "the daemon's answer has no grant"));
}

// The part that opening and creating a QP have in common.
template <typename Request, typename Response>
Result<Response> CallForQp(Connection& connection, const char* method, const Request& request,
                           const CallOptions& call, std::vector<UniqueFd>& fds) {
  Response response;
  absl::StatusOr<std::vector<UniqueFd>> delivered = connection.CallForFds(
      method, request, &response, {v1::FD_KIND_LEASE}, DeadlineAfter(call.timeout));
  if (!delivered.ok()) return ToError(delivered.status());
  if (delivered->empty() && response.qp().life() != v1::QP_LIFE_DOMAIN) return NoGrant();
  fds = *std::move(delivered);
  return response;
}

// The lease of a QP's grant; none for a QP that lives as long as its domain.
std::optional<Lease> QpLease(const std::shared_ptr<Connection>& connection, const v1::Grant& grant,
                             std::vector<UniqueFd> fds) {
  if (fds.empty()) return std::nullopt;
  return MakeLease(connection, LeaseTarget::kQp, grant, std::move(fds[0]));
}

Result<Qp> OpenQpBy(const std::shared_ptr<Connection>& connection, v1::OpenQpRequest request,
                    std::string_view xrcd, const OpenQpOptions& options, const CallOptions& call) {
  absl::Status status =
      CheckAscii({{"xrcd", xrcd}, {"key", request.key()}, {"request_id", options.request_id}});
  if (!status.ok()) return ToError(status);
  request.set_xrcd(std::string(xrcd));
  request.set_request_id(RequestIdOr(options.request_id));
  std::vector<UniqueFd> fds;
  Result<v1::OpenQpResponse> response =
      CallForQp<v1::OpenQpRequest, v1::OpenQpResponse>(*connection, "OpenQp", request, call, fds);
  if (!response.ok()) return response.error();
  return Qp(QpLease(connection, response->grant(), std::move(fds)), FromProto(response->qp()),
            std::nullopt, false);
}

}  // namespace

Client::Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::Connect(const ConnectOptions& options) {
  absl::StatusOr<std::shared_ptr<Connection>> connection =
      Connection::Open(options.runtime_dir, DeadlineAfter(options.timeout));
  if (!connection.ok()) return ToError(connection.status());
  return Client(*std::move(connection));
}

Result<Identity> Client::WhoAmI(const CallOptions& call) {
  v1::WhoAmIResponse response;
  absl::Status status =
      connection_->Call("WhoAmI", v1::WhoAmIRequest(), &response, DeadlineAfter(call.timeout));
  if (!status.ok()) return ToError(status);
  return FromProto(response);
}

Result<std::vector<Device>> Client::ListDevices(const CallOptions& call) {
  const Deadline deadline = DeadlineAfter(call.timeout);
  std::vector<Device> devices;
  v1::ListDevicesRequest request;
  request.set_page_size(kDevicePage);
  do {
    v1::ListDevicesResponse response;
    absl::Status status = connection_->Call("ListDevices", request, &response, deadline);
    if (!status.ok()) return ToError(status);
    for (const v1::Device& device : response.devices()) devices.push_back(FromProto(device));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return devices;
}

Result<Xrcd> Client::OpenXrcd(const OpenXrcdOptions& options, const CallOptions& call) {
  absl::Status status = CheckAscii(
      {{"device", options.device}, {"name", options.name}, {"request_id", options.request_id}});
  if (!status.ok()) return ToError(status);
  v1::OpenXrcdRequest request;
  ToProto(options, request);
  request.set_request_id(RequestIdOr(options.request_id));
  v1::OpenXrcdResponse response;
  absl::StatusOr<std::vector<UniqueFd>> fds =
      connection_->CallForFds("OpenXrcd", request, &response, {v1::FD_KIND_LEASE, v1::FD_KIND_XRCD},
                              DeadlineAfter(call.timeout));
  if (!fds.ok()) return ToError(fds.status());
  if (fds->empty()) return NoGrant();
  Lease lease = MakeLease(connection_, LeaseTarget::kXrcd, response.grant(), std::move((*fds)[0]));
  return Xrcd(std::make_unique<client::GrantedXrcd>(client::GrantedXrcd{
      std::move(lease), std::move((*fds)[1]), FromProto(response.xrcd()), response.created()}));
}

Result<Qp> Client::CreateQp(std::string_view xrcd, const CreateQpOptions& options,
                            const CallOptions& call) {
  absl::Status status =
      CheckAscii({{"xrcd", xrcd}, {"key", options.key}, {"request_id", options.request_id}});
  if (!status.ok()) return ToError(status);
  v1::CreateQpRequest request;
  request.set_xrcd(std::string(xrcd));
  ToProto(options, request);
  request.set_request_id(RequestIdOr(options.request_id));
  std::vector<UniqueFd> fds;
  Result<v1::CreateQpResponse> response = CallForQp<v1::CreateQpRequest, v1::CreateQpResponse>(
      *connection_, "CreateQp", request, call, fds);
  if (!response.ok()) return response.error();
  return Qp(QpLease(connection_, response->grant(), std::move(fds)), FromProto(response->qp()),
            FromProto(response->endpoint()), response->created());
}

Result<Qp> Client::OpenQp(std::string_view xrcd, uint32_t qp_num, const OpenQpOptions& options,
                          const CallOptions& call) {
  v1::OpenQpRequest request;
  request.set_qp_num(qp_num);
  return OpenQpBy(connection_, std::move(request), xrcd, options, call);
}

Result<Qp> Client::OpenQp(std::string_view xrcd, std::string_view key, const OpenQpOptions& options,
                          const CallOptions& call) {
  v1::OpenQpRequest request;
  request.set_key(std::string(key));
  return OpenQpBy(connection_, std::move(request), xrcd, options, call);
}

Result<QpState> Client::ModifyQp(std::string_view qp, const QpAttributes& attributes,
                                 const CallOptions& call) {
  if (absl::Status status = CheckAscii({{"qp", qp}}); !status.ok()) return ToError(status);
  v1::ModifyQpRequest request;
  request.set_qp(std::string(qp));
  ToProto(attributes, *request.mutable_attributes());
  v1::ModifyQpResponse response;
  absl::Status status =
      connection_->Call("ModifyQp", request, &response, DeadlineAfter(call.timeout));
  if (!status.ok()) return ToError(status);
  return FromProto(response.state());
}

Result<ConnectedQp> Client::ConnectQp(std::string_view qp, const ConnectQpOptions& options,
                                      const CallOptions& call) {
  if (absl::Status status = CheckAscii({{"qp", qp}}); !status.ok()) return ToError(status);
  v1::ConnectQpRequest request;
  request.set_qp(std::string(qp));
  ToProto(options, request);
  v1::ConnectQpResponse response;
  absl::Status status =
      connection_->Call("ConnectQp", request, &response, DeadlineAfter(call.timeout));
  if (!status.ok()) return ToError(status);
  return ConnectedQp{.already_connected = response.already_connected(),
                     .endpoint = FromProto(response.endpoint())};
}

Result<QpStatus> Client::QueryQp(std::string_view qp, const CallOptions& call) {
  if (absl::Status status = CheckAscii({{"qp", qp}}); !status.ok()) return ToError(status);
  v1::QueryQpRequest request;
  request.set_qp(std::string(qp));
  v1::QueryQpResponse response;
  absl::Status status =
      connection_->Call("QueryQp", request, &response, DeadlineAfter(call.timeout));
  if (!status.ok()) return ToError(status);
  return QpStatus{.info = FromProto(response.qp()), .attributes = FromProto(response.attributes())};
}

Result<DestroyedQp> Client::DestroyQp(std::string_view qp, const CallOptions& call) {
  if (absl::Status status = CheckAscii({{"qp", qp}}); !status.ok()) return ToError(status);
  v1::DestroyQpRequest request;
  request.set_qp(std::string(qp));
  v1::DestroyQpResponse response;
  absl::Status status =
      connection_->Call("DestroyQp", request, &response, DeadlineAfter(call.timeout));
  if (!status.ok()) return ToError(status);
  return DestroyedQp{.remaining_leases = response.remaining_leases(),
                     .lingering = response.lingering()};
}

Result<DestroyedXrcd> Client::DestroyXrcd(std::string_view xrcd, const CallOptions& call) {
  if (absl::Status status = CheckAscii({{"xrcd", xrcd}}); !status.ok()) return ToError(status);
  v1::DestroyXrcdRequest request;
  request.set_xrcd(std::string(xrcd));
  v1::DestroyXrcdResponse response;
  absl::Status status =
      connection_->Call("DestroyXrcd", request, &response, DeadlineAfter(call.timeout));
  if (!status.ok()) return ToError(status);
  DestroyedXrcd destroyed{.existed = response.existed()};
  for (const v1::Lease& lease : response.holders()) destroyed.holders.push_back(FromProto(lease));
  return destroyed;
}

Result<std::vector<QpInfo>> Client::ListDomainQps(std::string_view xrcd,
                                                  std::string_view key_prefix,
                                                  const CallOptions& call) {
  absl::Status status = CheckAscii({{"xrcd", xrcd}, {"key_prefix", key_prefix}});
  if (!status.ok()) return ToError(status);
  const Deadline deadline = DeadlineAfter(call.timeout);
  std::vector<QpInfo> qps;
  v1::ListDomainQpsRequest request;
  request.set_xrcd(std::string(xrcd));
  request.set_key_prefix(std::string(key_prefix));
  request.set_page_size(kQpPage);
  do {
    v1::ListDomainQpsResponse response;
    status = connection_->Call("ListDomainQps", request, &response, deadline);
    if (!status.ok()) return ToError(status);
    for (const v1::Qp& qp : response.qps()) qps.push_back(FromProto(qp));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return qps;
}

int Client::session_fd() const { return connection_->session_fd(); }

Result<void> Client::ProcessSession() {
  absl::Status status = connection_->ProcessSession();
  if (!status.ok()) return ToError(status);
  return {};
}

}  // namespace qpbroker
