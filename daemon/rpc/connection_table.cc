// SPDX-License-Identifier: Apache-2.0
//
// gRPC can neither identify a Unix peer nor let a service know which connection a call came by. So
// each connection has a server of its own, which never listens: it is given the one connected
// socket.
//
// gRPC owns that socket; its end is seen on a dup. The dup must leave the epoll set before it is
// closed: epoll keys on the open description, which gRPC's descriptor keeps alive.
//
// Whoever still has to answer a call holds the Connection. When nobody does any more, its server is
// shut down and freed by the reaper's thread: that waits for the last answers to be sent, and never
// for a device, since a call that comes after the end is refused before it gets there. What waits
// for the reaper is still charged to its user, so there is no more of it than the quotas allow.
#include "daemon/rpc/connection_table.h"

#include <fcntl.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <sys/epoll.h>

#include <chrono>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/peer_credentials.h"
#include "daemon/rpc/caller_context.h"
#include "daemon/rpc/reflection_service.h"
#include "daemon/rpc/services.h"
#include "daemon/telemetry/log.h"

namespace qpbroker::rpc {
namespace {

// Requests are small; what is longer is refused by gRPC itself with RESOURCE_EXHAUSTED.
constexpr int kMaxRequestBytes = 1 << 20;
// What one client may have under way at the same time; its gRPC library holds the rest back.
constexpr int kMaxCallsPerConnection = 128;
// Soft limit of what all connections together buffer: beyond it gRPC reads more slowly.
constexpr size_t kMaxBufferedBytes = size_t{256} << 20;

constexpr const char* kOwnServices[] = {
    "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection", "qpbroker.v1.BrokerService",
    "qpbroker.v1.InspectionService"};
constexpr const char* kAllServices[] = {
    "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection", "qpbroker.v1.InspectionService"};

const grpc::ResourceQuota& SharedQuota() {
  static const grpc::ResourceQuota& quota = [&]() -> const grpc::ResourceQuota& {
    auto* made = new grpc::ResourceQuota("qpbrokerd");
    return made->Resize(kMaxBufferedBytes);
  }();
  return quota;
}

}  // namespace

class Connection : public CallerContext {
 public:
  Connection(core::Broker& broker, core::Caller caller, core::Charge charge)
      : CallerContext(broker, std::move(caller)), charge_(std::move(charge)) {}

  // False when gRPC cannot make a server.
  bool Serve(UniqueFd socket) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsPerConnection);
    builder.SetResourceQuota(SharedQuota());
    const bool own = caller().scope == core::Scope::kOwn;
    if (own) AddService(builder, NewBrokerService(*this));
    AddService(builder, NewInspectionService(*this));
    const absl::Span<const char* const> names =
        own ? absl::MakeConstSpan(kOwnServices) : absl::MakeConstSpan(kAllServices);
    AddService(builder, NewReflectionService(names));
    AddService(builder, NewReflectionServiceV1Alpha(names));
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return false;
    grpc::AddInsecureChannelFromFd(server_.get(), socket.release());
    return true;
  }

  void ShutDown() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

 private:
  void AddService(grpc::ServerBuilder& builder, std::unique_ptr<grpc::Service> service) {
    builder.RegisterService(service.get());
    services_.push_back(std::move(service));
  }

  const core::Charge charge_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

// Frees connections in a thread of its own.
class Reaper {
 public:
  Reaper() : thread_([this] { Run(); }) {}
  ~Reaper() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  void Expect() {
    absl::MutexLock lock(&mutex_);
    ++alive_;
  }
  void Reap(std::unique_ptr<Connection> connection) {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(connection));
  }
  // Whether every connection was freed within `limit`.
  bool AwaitAll(absl::Duration limit) {
    absl::MutexLock lock(&mutex_);
    auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return alive_ == 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(&none), limit);
  }

 private:
  void Run() {
    while (std::unique_ptr<Connection> connection = Next()) {
      connection->ShutDown();
      connection.reset();
      absl::MutexLock lock(&mutex_);
      --alive_;
    }
  }
  // Null when it is time to stop.
  std::unique_ptr<Connection> Next() {
    absl::MutexLock lock(&mutex_);
    auto ready = [this]()
                     ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty() || stopping_; };
    mutex_.Await(absl::Condition(&ready));
    if (queue_.empty()) return nullptr;
    std::unique_ptr<Connection> connection = std::move(queue_.front());
    queue_.pop_front();
    return connection;
  }

  absl::Mutex mutex_;
  std::deque<std::unique_ptr<Connection>> queue_ ABSL_GUARDED_BY(mutex_);
  size_t alive_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

void InitServices() { grpc::EnableDefaultHealthCheckService(true); }

ConnectionTable::ConnectionTable(EventLoop& loop, core::Broker& broker,
                                 std::function<void(core::SessionId)> end_session)
    : loop_(loop),
      broker_(broker),
      end_session_(std::move(end_session)),
      reaper_(std::make_shared<Reaper>()) {}

// A connection that is left keeps the reaper, which must not be freed by its own thread.
ConnectionTable::~ConnectionTable() { Shutdown(absl::InfiniteDuration()); }

void ConnectionTable::Adopt(UniqueFd socket, core::Scope scope) {
  absl::StatusOr<PeerCredentials> peer = ReadPeerCredentials(socket.get());
  if (!peer.ok()) {
    return telemetry::LogLimited(telemetry::Event::kPeerRefused, "a client",
                                 peer.status().message());
  }
  const uid_t uid = peer->uid;
  absl::StatusOr<core::Charge> charge = broker_.ChargeConnection(uid);
  if (!charge.ok()) {
    return telemetry::LogLimited(telemetry::Event::kPeerRefused, uid, charge.status().message());
  }
  const uint64_t id = ++last_id_;
  UniqueFd watched(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!watched ||
      !loop_.Watch(watched.get(), EPOLLRDHUP | EPOLLHUP, [this, id](uint32_t) { End(id); }).ok()) {
    return telemetry::LogLimited(telemetry::Event::kOutOfDescriptors, uid,
                                 "a connection was refused");
  }
  reaper_->Expect();
  auto* raw = new Connection(broker_, core::Caller{*std::move(peer), scope, std::nullopt},
                             *std::move(charge));
  std::shared_ptr<Connection> connection(raw, [reaper = reaper_](Connection* last) {
    reaper->Reap(std::unique_ptr<Connection>(last));
  });
  const bool serves = connection->Serve(std::move(socket));
  connections_[id] = {std::move(watched), std::move(connection)};
  if (!serves) End(id);
}

void ConnectionTable::End(uint64_t id) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Entry entry = std::move(found->second);
  connections_.erase(found);
  loop_.Unwatch(entry.watched.get());
  if (std::optional<core::SessionId> session = entry.connection->End()) end_session_(*session);
}

bool ConnectionTable::Shutdown(absl::Duration limit) {
  while (!connections_.empty()) End(connections_.begin()->first);
  return reaper_->AwaitAll(limit);
}

}  // namespace qpbroker::rpc
