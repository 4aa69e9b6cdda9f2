// SPDX-License-Identifier: Apache-2.0
#include "client/src/testing/fake_daemon.h"

#include <grpcpp/server_builder.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "client/src/testing/fake_session.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace qpbroker::client::testing {
namespace {

constexpr char kGeneration[] = "@5f0c2a9b11d4";
// So many may have been released unnoticed before a further grant looks, so that a test that goes
// on asking does not run out of descriptors.
constexpr size_t kManyLeases = 64;

grpc::Status Error(grpc::StatusCode code, const std::string& reason, const std::string& message) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("qpbroker");
  (*info.mutable_metadata())["hint"] = "a hint";
  (*info.mutable_metadata())["device"] = "vhca0";
  google::rpc::Status details;
  details.set_code(code);
  details.set_message(message);
  details.add_details()->PackFrom(info);
  return grpc::Status(code, message, details.SerializeAsString());
}

bool IsDead(const UniqueFd& session) {
  pollfd entry{session.get(), POLLRDHUP, 0};
  return poll(&entry, 1, 0) > 0;
}

void FillQp(const std::string& xrcd, const std::string& key, uint32_t number, v1::Qp& qp) {
  qp.set_name(xrcd + "/qps/" + std::to_string(number));
  qp.set_qp_num(number);
  qp.set_key(key);
  qp.set_lease_count(1);
}

}  // namespace

std::string FakeDaemon::Delivery::bytes() const {
  return DeliveryBytes(request_id, grant_id, kinds);
}

FakeDaemon::FakeDaemon()
    : dir_(MakeTempDir()),
      listener_(ListenUnix(dir_ + "/session.sock", SOCK_SEQPACKET)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  Behave();
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + dir_ + "/api.sock", grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  accepter_ = std::thread([this] { AcceptSessions(); });
}

FakeDaemon::~FakeDaemon() {
  StopApi();
  eventfd_write(stop_.get(), 1);
  accepter_.join();
  std::filesystem::remove_all(dir_);
}

void FakeDaemon::OnGreet(std::function<void(int)> greet) {
  std::lock_guard lock(mutex_);
  greet_ = std::move(greet);
}

void FakeDaemon::OnDeliver(std::function<void(int, const Delivery&)> deliver) {
  std::lock_guard lock(mutex_);
  deliver_ = std::move(deliver);
}

void FakeDaemon::OnAnswer(std::function<void(grpc::ServerContext&)> answer) {
  std::lock_guard lock(mutex_);
  answer_ = std::move(answer);
}

void FakeDaemon::Behave() {
  OnGreet(nullptr);
  OnDeliver([](int session, const Delivery& delivery) {
    SendRaw(session, delivery.bytes(), delivery.fds);
  });
  OnAnswer([](grpc::ServerContext&) {});
  std::lock_guard lock(mutex_);
  prepared_.reset();
}

void FakeDaemon::PrepareGrant() {
  std::lock_guard lock(mutex_);
  prepared_ = MakeGrantFds(dir_, "prepared");
}

int FakeDaemon::HeldLeases() {
  std::lock_guard lock(mutex_);
  ForgetReleasedLeases();
  return static_cast<int>(leases_.size());
}

void FakeDaemon::ForgetReleasedLeases() {
  std::erase_if(leases_, [](const auto& lease) { return !LeaseIsHeld(lease.second); });
}

void FakeDaemon::SendEvent(const EventRecord& record) {
  std::lock_guard lock(mutex_);
  if (leases_.empty()) return;
  ssize_t written = write(leases_.rbegin()->second.get(), &record, sizeof(record));
  static_cast<void>(written);
}

void FakeDaemon::HangUpLeases() {
  std::lock_guard lock(mutex_);
  leases_.clear();
}

size_t FakeDaemon::ForgetDeadSessions() {
  std::lock_guard lock(mutex_);
  if (attached_ != nullptr && IsDead(*attached_)) attached_ = nullptr;
  std::erase_if(sessions_, [](const auto& session) { return IsDead(*session.second); });
  return sessions_.size();
}

void FakeDaemon::CloseSessions() {
  std::lock_guard lock(mutex_);
  for (const auto& [nonce, session] : sessions_) shutdown(session->get(), SHUT_RDWR);
  sessions_.clear();
  attached_ = nullptr;
}

void FakeDaemon::StopApi() { server_->Shutdown(std::chrono::system_clock::now()); }

void FakeDaemon::AcceptSessions() {
  for (;;) {
    pollfd entries[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(entries, 2, -1) < 0) continue;
    if (entries[1].revents != 0) return;
    UniqueFd session(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!session) continue;
    std::function<void(int)> greet;
    std::string nonce(16, '\0');
    {
      std::lock_guard lock(mutex_);
      greet = greet_;
      nonce[0] = static_cast<char>(++last_session_);
    }
    if (greet) {
      greet(session.get());
      continue;
    }
    ForgetDeadSessions();
    std::lock_guard lock(mutex_);
    // Known before the client can present it.
    auto known = sessions_.insert_or_assign(nonce, std::make_shared<UniqueFd>(std::move(session)));
    SendRaw(known.first->second->get(), GreetingBytes(nonce), {});
  }
}

void FakeDaemon::MakeGrant(grpc::ServerContext& context, const std::string& request_id,
                           const std::string& text, const std::vector<v1::FdKind>& kinds,
                           v1::Grant& grant) {
  Delivery delivery{.request_id = request_id, .kinds = kinds};
  GrantFds made;
  std::shared_ptr<UniqueFd> session;
  std::function<void(int, const Delivery&)> deliver;
  std::function<void(grpc::ServerContext&)> answer;
  {
    std::lock_guard lock(mutex_);
    if (leases_.size() > kManyLeases) ForgetReleasedLeases();
    if (!prepared_) made = MakeGrantFds(dir_, text);
    GrantFds& fds = prepared_ ? *prepared_ : made;
    for (v1::FdKind kind : kinds) {
      delivery.fds.push_back(kind == v1::FD_KIND_LEASE ? fds.lease.get() : fds.file.get());
    }
    delivery.grant_id = ++last_grant_;
    leases_[delivery.grant_id] = std::move(fds.lease_end);
    session = attached_;
    deliver = deliver_;
    answer = answer_;
  }
  if (session != nullptr) deliver(session->get(), delivery);
  answer(context);
  grant.set_grant_id(delivery.grant_id);
  grant.set_lease("leases/" + std::to_string(delivery.grant_id) + kGeneration);
}

bool FakeDaemon::CloseLease(const std::string& name) {
  std::lock_guard lock(mutex_);
  return leases_.erase(std::stoull(name.substr(name.find('/') + 1))) == 1;
}

grpc::Status FakeDaemon::WhoAmI(grpc::ServerContext*, const v1::WhoAmIRequest*,
                                v1::WhoAmIResponse* response) {
  response->set_uid(getuid());
  response->set_gid(getgid());
  response->set_pid(getpid());
  response->set_generation("5f0c2a9b11d4");
  response->set_version("fake");
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::Attach(grpc::ServerContext*, const v1::AttachRequest* request,
                                v1::AttachResponse* response) {
  std::lock_guard lock(mutex_);
  auto session = sessions_.find(request->nonce());
  if (session == sessions_.end()) {
    return Error(grpc::StatusCode::PERMISSION_DENIED, "BAD_NONCE", "no such session of yours");
  }
  attached_ = session->second;
  response->set_session("sessions/1@5f0c2a9b11d4");
  return grpc::Status::OK;
}

// Two pages.
grpc::Status FakeDaemon::ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest* request,
                                     v1::ListDevicesResponse* response) {
  bool first = request->page_token().empty();
  v1::Device* device = response->add_devices();
  device->set_name(first ? "devices/vhca0" : "devices/vhca1");
  device->set_xrc_supported(true);
  device->add_ports()->set_number(1);
  if (first) response->set_next_page_token("second");
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::OpenXrcd(grpc::ServerContext* context, const v1::OpenXrcdRequest* request,
                                  v1::OpenXrcdResponse* response) {
  if (request->name() == "forbidden") {
    return Error(grpc::StatusCode::PERMISSION_DENIED, "PERMISSION_DENIED", "you may not do this");
  }
  MakeGrant(*context, request->request_id(), request->name(), {v1::FD_KIND_LEASE, v1::FD_KIND_XRCD},
            *response->mutable_grant());
  response->mutable_xrcd()->set_name("devices/vhca0/xrcds/0/" + request->name() + kGeneration);
  response->set_created(request->create());
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::CreateQp(grpc::ServerContext* context, const v1::CreateQpRequest* request,
                                  v1::CreateQpResponse* response) {
  FillQp(request->xrcd(), request->key(), 0x800012, *response->mutable_qp());
  response->mutable_qp()->set_life(request->life());
  if (request->life() != v1::QP_LIFE_DOMAIN) {
    MakeGrant(*context, request->request_id(), request->key(), {v1::FD_KIND_LEASE},
              *response->mutable_grant());
  }
  response->mutable_endpoint()->set_qp_num(0x800012);
  response->mutable_endpoint()->set_port(request->port());
  response->set_created(true);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::OpenQp(grpc::ServerContext* context, const v1::OpenQpRequest* request,
                                v1::OpenQpResponse* response) {
  FillQp(request->xrcd(), request->key(), request->has_qp_num() ? request->qp_num() : 0x800012,
         *response->mutable_qp());
  MakeGrant(*context, request->request_id(), "qp", {v1::FD_KIND_LEASE}, *response->mutable_grant());
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ModifyQp(grpc::ServerContext*, const v1::ModifyQpRequest* request,
                                  v1::ModifyQpResponse* response) {
  response->set_state(request->attributes().state());
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ConnectQp(grpc::ServerContext*, const v1::ConnectQpRequest* request,
                                   v1::ConnectQpResponse* response) {
  response->set_already_connected(request->remote().qp_num() == 7);
  response->mutable_endpoint()->set_qp_num(0x800012);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::QueryQp(grpc::ServerContext*, const v1::QueryQpRequest* request,
                                 v1::QueryQpResponse* response) {
  response->mutable_qp()->set_name(request->qp());
  response->mutable_attributes()->set_state(v1::QP_STATE_RTR);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::CloseQp(grpc::ServerContext*, const v1::CloseQpRequest* request,
                                 v1::CloseQpResponse*) {
  if (CloseLease(request->lease())) return grpc::Status::OK;
  return Error(grpc::StatusCode::NOT_FOUND, "LEASE_NOT_FOUND", "you hold no such lease");
}

grpc::Status FakeDaemon::DestroyQp(grpc::ServerContext*, const v1::DestroyQpRequest*,
                                   v1::DestroyQpResponse* response) {
  response->set_remaining_leases(3);
  response->set_lingering(true);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::CloseXrcd(grpc::ServerContext*, const v1::CloseXrcdRequest* request,
                                   v1::CloseXrcdResponse* response) {
  if (!CloseLease(request->lease())) {
    return Error(grpc::StatusCode::NOT_FOUND, "LEASE_NOT_FOUND", "you hold no such lease");
  }
  response->set_remaining_leases(2);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::DestroyXrcd(grpc::ServerContext*, const v1::DestroyXrcdRequest*,
                                     v1::DestroyXrcdResponse* response) {
  response->set_existed(true);
  response->add_holders()->set_name("leases/1@5f0c2a9b11d4");
  return grpc::Status::OK;
}

// Two pages.
grpc::Status FakeDaemon::ListDomainQps(grpc::ServerContext*,
                                       const v1::ListDomainQpsRequest* request,
                                       v1::ListDomainQpsResponse* response) {
  bool first = request->page_token().empty();
  FillQp(request->xrcd(), request->key_prefix() + "x", first ? 1 : 2, *response->add_qps());
  if (first) response->set_next_page_token("second");
  return grpc::Status::OK;
}

}  // namespace qpbroker::client::testing
