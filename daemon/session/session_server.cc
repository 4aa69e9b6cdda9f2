// SPDX-License-Identifier: Apache-2.0
//
// A client has nothing to say on this socket. What it sends is read without room for ancillary
// data, so that the kernel itself drops descriptors, and ends the session: a client that could make
// us hold descriptors could use ours up.
#include "daemon/session/session_server.h"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/seqpacket_channel.h"
#include "daemon/core/resource_name.h"
#include "daemon/telemetry/log.h"
#include "qpbroker/v1/session.pb.h"

namespace qpbroker::session {
namespace {

constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kNonceBytes = 16;

// Never from a fallback: without randomness there is no session.
bool FillRandom(std::string& bytes) {
  return getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

absl::Status DeliveryError(int error) {
  switch (error) {
    case EAGAIN:
      return MakeError(v1::REASON_SESSION_BACKLOG);
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return MakeError(v1::REASON_SESSION_GONE);
    default:  // ETOOMANYREFS, ENOBUFS, ENOMEM, ...
      return ErrnoError(v1::REASON_DAEMON_LIMIT, error, "sendmsg");
  }
}

absl::Status Send(const UniqueFd& socket, const v1::SessionPacket& packet,
                  absl::Span<const int> fds) {
  const std::string bytes = packet.SerializeAsString();
  const int error = SendPacket(socket.get(), {bytes.data(), bytes.size()}, fds);
  return error == 0 ? absl::OkStatus() : DeliveryError(error);
}

}  // namespace

absl::Status FdDelivery::Deliver(core::SessionId session, const v1::FdDelivery& delivery,
                                 absl::Span<const int> fds) {
  std::shared_ptr<const UniqueFd> socket;
  {
    absl::MutexLock lock(&mutex_);
    auto found = sockets_.find(session);
    if (found == sockets_.end()) return MakeError(v1::REASON_SESSION_GONE);
    socket = found->second;
  }
  v1::SessionPacket packet;
  *packet.mutable_delivery() = delivery;
  return Send(*socket, packet, fds);
}

void FdDelivery::Add(core::SessionId session, std::shared_ptr<const UniqueFd> socket) {
  absl::MutexLock lock(&mutex_);
  sockets_[session] = std::move(socket);
}

void FdDelivery::Remove(core::SessionId session) {
  absl::MutexLock lock(&mutex_);
  sockets_.erase(session);
}

SessionServer::SessionServer(EventLoop& loop, core::Broker& broker, FdDelivery& delivery,
                             absl::Duration attach_timeout)
    : loop_(loop), broker_(broker), delivery_(delivery), attach_timeout_(attach_timeout) {}

SessionServer::~SessionServer() {
  *alive_ = false;
  while (!sessions_.empty()) End(sessions_.begin()->first);
}

void SessionServer::Adopt(UniqueFd socket) {
  absl::StatusOr<PeerCredentials> peer = ReadPeerCredentials(socket.get());
  if (!peer.ok()) {
    return telemetry::LogLimited(telemetry::Event::kPeerRefused, "a client",
                                 peer.status().message());
  }
  std::string nonce(kNonceBytes, '\0');
  if (!FillRandom(nonce)) {
    return telemetry::LogLimited(telemetry::Event::kPeerRefused, peer->uid, "no randomness");
  }
  absl::StatusOr<core::SessionId> session = broker_.BeginSession(*peer, nonce);
  if (!session.ok()) {
    return telemetry::LogLimited(telemetry::Event::kPeerRefused, peer->uid,
                                 session.status().message());
  }
  const core::SessionId id = *session;
  auto shared = std::make_shared<const UniqueFd>(std::move(socket));
  // First of all: with the greeting's nonce the client may have a call under way at once.
  delivery_.Add(id, shared);
  absl::Status greeted = Greet(*shared, id, nonce);
  if (greeted.ok()) {
    greeted =
        loop_.Watch(shared->get(), EPOLLIN | EPOLLRDHUP, [this, id](uint32_t) { OnReadable(id); });
  }
  if (!greeted.ok()) {
    delivery_.Remove(id);
    return broker_.EndSession(id);
  }
  sessions_[id] = {peer->uid, std::move(shared)};
  loop_.After(attach_timeout_, [this, id, alive = alive_] {
    if (*alive) EndIfNotAttached(id);
  });
}

absl::Status SessionServer::Greet(const UniqueFd& socket, core::SessionId session,
                                  absl::string_view nonce) {
  v1::SessionPacket packet;
  v1::SessionGreeting& greeting = *packet.mutable_greeting();
  greeting.set_protocol_version(kProtocolVersion);
  greeting.set_nonce(std::string(nonce));
  greeting.set_session(core::FormatSessionName(session, broker_.generation()));
  return Send(socket, packet, {});
}

void SessionServer::OnReadable(core::SessionId id) {
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  char byte;
  const ssize_t received = recv(found->second.socket->get(), &byte, 1, MSG_DONTWAIT);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (received > 0) {
    telemetry::LogLimited(telemetry::Event::kProtocolViolation, found->second.uid,
                          "a client wrote to its session socket; the session was ended");
  }
  End(id);
}

void SessionServer::End(core::SessionId id) {
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  loop_.Unwatch(found->second.socket->get());
  // A delivery under way keeps the descriptor a moment longer; the peer learns of the end at once.
  shutdown(found->second.socket->get(), SHUT_RDWR);
  sessions_.erase(found);
  delivery_.Remove(id);
  broker_.EndSession(id);
}

void SessionServer::EndIfNotAttached(core::SessionId id) {
  if (sessions_.contains(id) && !broker_.IsAttached(id)) End(id);
}

}  // namespace qpbroker::session
