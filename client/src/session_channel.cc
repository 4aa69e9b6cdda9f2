// SPDX-License-Identifier: Apache-2.0
#include "client/src/session_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/src/socket_io.h"
#include "common/error_reason.h"
#include "qpbroker/v1/session.pb.h"

namespace qpbroker::client {
namespace {

constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kNonceBytes = 16;
// How long an answer may be ahead of its descriptors. They are sent first, so this passes only
// where the daemon misbehaves; it keeps a call from using up a long deadline for nothing.
constexpr std::chrono::seconds kDeliveryGrace(2);
// Deliveries for one call: its own, and perhaps one for an earlier try with the same request_id.
constexpr size_t kMaxDeliveriesPerCall = 4;
// Packets that Drain reads at a time: it promises not to block, also where they come without end.
constexpr int kMaxDrainedPackets = 256;
// Long past: take what is there.
constexpr Deadline kDoNotWait{};

absl::Status Violation(absl::string_view what) {
  return MakeError(v1::REASON_PROTOCOL_VIOLATION, what);
}

absl::Status GreetingError(const std::string& path) {
  return MakeError(
      v1::REASON_DAEMON_UNREACHABLE,
      absl::StrCat("the daemon closed the session without a greeting: ", path),
      {{"path", path}, {"hint", "it may be stopping, or you may have too many sessions"}});
}

// Reads the first packet of a session. Waits through interruptions and spurious wake-ups.
absl::StatusOr<ReceivedPacket> ReceiveFirstPacket(int socket, const std::string& path,
                                                  Deadline deadline) {
  ReceivedPacket packet;
  for (;;) {
    int error = ReceivePacket(socket, packet);
    if (error == 0) return packet;
    if (error != EAGAIN) return GreetingError(path);
    if (!WaitReadable(socket, deadline)) {
      return MakeError(v1::REASON_DEADLINE_EXCEEDED, "the daemon did not greet the session in time",
                       {{"path", path}});
    }
  }
}

absl::StatusOr<std::string> NonceOf(const ReceivedPacket& packet) {
  v1::SessionPacket message;
  if (packet.bytes_truncated || !message.ParseFromString(packet.bytes) || !message.has_greeting()) {
    return Violation("the daemon's first packet is no greeting");
  }
  if (message.greeting().protocol_version() != kProtocolVersion) {
    return MakeError(
        v1::REASON_PROTOCOL_VIOLATION,
        absl::StrCat("the daemon speaks version ", message.greeting().protocol_version(),
                     " of the session protocol, this library version ", kProtocolVersion),
        {{"protocol_version", absl::StrCat(message.greeting().protocol_version())},
         {"hint", "install client and daemon of the same release"}});
  }
  if (message.greeting().nonce().size() != kNonceBytes) {
    return Violation("the daemon's greeting has no nonce of 16 bytes");
  }
  return message.greeting().nonce();
}

}  // namespace

SessionChannel::Expectation::Expectation(SessionChannel* channel, std::string request_id)
    : channel_(channel), request_id_(std::move(request_id)) {}

SessionChannel::Expectation::Expectation(Expectation&& other) noexcept
    : channel_(std::exchange(other.channel_, nullptr)), request_id_(std::move(other.request_id_)) {}

SessionChannel::Expectation::~Expectation() {
  if (channel_ != nullptr) channel_->GiveUp(request_id_);
}

absl::StatusOr<std::vector<UniqueFd>> SessionChannel::Expectation::Take(
    uint64_t grant_id, const std::vector<v1::FdKind>& kinds, Deadline deadline) {
  deadline = std::min(deadline, DeadlineAfter(kDeliveryGrace));
  absl::StatusOr<Delivery> delivery = channel_->Await(request_id_, grant_id, deadline);
  if (!delivery.ok()) return delivery.status();
  return CheckDelivery(*std::move(delivery), kinds);
}

absl::StatusOr<std::unique_ptr<SessionChannel>> SessionChannel::Connect(const std::string& path,
                                                                        Deadline deadline) {
  absl::StatusOr<UniqueFd> socket = ConnectUnix(path, SOCK_SEQPACKET, deadline);
  if (!socket.ok()) return socket.status();
  absl::StatusOr<ReceivedPacket> packet = ReceiveFirstPacket(socket->get(), path, deadline);
  if (!packet.ok()) return packet.status();
  absl::StatusOr<std::string> nonce = NonceOf(*packet);
  if (!nonce.ok()) return nonce.status();
  return std::unique_ptr<SessionChannel>(new SessionChannel(*std::move(socket), *std::move(nonce)));
}

SessionChannel::SessionChannel(UniqueFd socket, std::string nonce)
    : socket_(std::move(socket)), nonce_(std::move(nonce)) {}

absl::StatusOr<SessionChannel::Expectation> SessionChannel::Expect(const std::string& request_id) {
  absl::MutexLock lock(&mutex_);
  if (!end_.ok()) return end_;
  auto [waiter, is_new] = waiters_.try_emplace(request_id);
  if (!is_new) {
    return MakeError(v1::REASON_REQUEST_IN_PROGRESS, {}, {{"request_id", request_id}});
  }
  waiter->second.violations_before = violations_;
  return Expectation(this, request_id);
}

absl::Status SessionChannel::Drain() {
  absl::MutexLock lock(&mutex_);
  for (int i = 0; i < kMaxDrainedPackets && !reading_; ++i) {
    if (!ReadOne(kDoNotWait)) break;
  }
  return end_;
}

// Looks at the deadline after each packet: strangers' packets without end must not hold up this
// call.
absl::StatusOr<Delivery> SessionChannel::Await(const std::string& request_id, uint64_t grant_id,
                                               Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  for (bool late = false;; late = Expired(deadline)) {
    Delivery delivery;
    if (TakeMatching(request_id, grant_id, delivery)) return delivery;
    if (!end_.ok()) return end_;
    if (late) return NothingCame(request_id);
    if (reading_) {
      AwaitOtherReader(deadline);
    } else {
      ReadOne(deadline);
    }
  }
}

void SessionChannel::AwaitOtherReader(Deadline deadline) {
  const uint64_t seen = packets_;
  auto changed = [this, seen]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !reading_ || packets_ != seen;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&changed), absl::FromChrono(Remaining(deadline)));
}

// A delivery of another grant belongs to an earlier try with the same request_id: it is closed.
bool SessionChannel::TakeMatching(const std::string& request_id, uint64_t grant_id,
                                  Delivery& delivery) {
  auto waiter = waiters_.find(request_id);
  if (waiter == waiters_.end()) return false;
  std::vector<Delivery> arrived = std::move(waiter->second.deliveries);
  waiter->second.deliveries.clear();
  for (Delivery& candidate : arrived) {
    if (candidate.grant_id != grant_id) continue;
    delivery = std::move(candidate);
    return true;
  }
  return false;
}

bool SessionChannel::ReadOne(Deadline deadline) {
  reading_ = true;
  mutex_.Unlock();
  ReceivedPacket packet;
  int error = ReceivePacket(socket_.get(), packet);
  while (error == EAGAIN && !Expired(deadline) && WaitReadable(socket_.get(), deadline)) {
    error = ReceivePacket(socket_.get(), packet);
  }
  mutex_.Lock();
  reading_ = false;
  if (error == EAGAIN) return false;
  if (error != 0) {
    end_ = MakeError(v1::REASON_SESSION_GONE, "the daemon has ended the session",
                     {{"hint", "connect again"}});
    return false;
  }
  ++packets_;
  Dispatch(std::move(packet));
  return true;
}

void SessionChannel::Dispatch(ReceivedPacket packet) {
  v1::SessionPacket message;
  if (packet.bytes_truncated || !message.ParseFromString(packet.bytes) || !message.has_delivery()) {
    ++violations_;
    return;
  }
  auto waiter = waiters_.find(message.delivery().request_id());
  if (waiter == waiters_.end()) return;
  std::vector<Delivery>& deliveries = waiter->second.deliveries;
  if (deliveries.size() == kMaxDeliveriesPerCall) return;
  Delivery delivery;
  delivery.grant_id = message.delivery().grant_id();
  for (int kind : message.delivery().fds()) {
    delivery.kinds.push_back(static_cast<v1::FdKind>(kind));
  }
  delivery.fds = std::move(packet.fds);
  delivery.fds_truncated = packet.fds_truncated;
  deliveries.push_back(std::move(delivery));
}

// Whose packet an unreadable one was, nobody can tell: it may have been this call's.
absl::Status SessionChannel::NothingCame(const std::string& request_id) {
  auto waiter = waiters_.find(request_id);
  if (waiter != waiters_.end() && waiter->second.violations_before != violations_) {
    return Violation("the daemon sent a packet on the session that cannot be read");
  }
  return MakeError(v1::REASON_FD_NOT_DELIVERED, "the answer came, its descriptors did not");
}

// Reads once more, because the descriptors of a call that failed or timed out may be there already.
void SessionChannel::GiveUp(const std::string& request_id) {
  {
    absl::MutexLock lock(&mutex_);
    waiters_.erase(request_id);
  }
  Drain().IgnoreError();
}

}  // namespace qpbroker::client
