// SPDX-License-Identifier: Apache-2.0
//
// Once sendmsg has returned, an entry is in the keeper's receive queue, which outlives this
// process: there is no answer to wait for. Messages of one entry are sent in their order, because
// as soon as anything is behind, everything else queues up there.
#include "daemon/runtime/keeper_client.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/error_reason.h"
#include "common/seqpacket_channel.h"
#include "daemon/keeper/protocol.h"
#include "daemon/telemetry/log.h"

namespace qpbroker::runtime {
namespace {

using keeper::Header;
using keeper::Op;

// One whole message to the keeper, or its errno.
int SendMessage(int socket, Op op, uint64_t id, absl::string_view record,
                absl::Span<const int> fds) {
  const Header header{op, static_cast<uint32_t>(record.size()), id};
  const absl::string_view head(reinterpret_cast<const char*>(&header), sizeof(header));
  return SendPacket(socket, absl::StrCat(head, record), fds);
}

// 0 and a socket, or an errno.
int ConnectTo(const std::string& path, UniqueFd& connected) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return errno;
  }
  connected = std::move(socket);
  return 0;
}

absl::Status Unusable(const std::string& path, absl::string_view why) {
  return MakeError(v1::REASON_INTERNAL, absl::StrCat("the keeper at ", path, ": ", why));
}

// Waits for the keeper's next message.
absl::Status ReceiveBefore(int socket, absl::Time deadline, ReceivedPacket& packet,
                           Header& header) {
  pollfd poll_fd{socket, POLLIN, 0};
  const int64_t wait = absl::ToInt64Milliseconds(deadline - absl::Now());
  if (wait <= 0 || poll(&poll_fd, 1, static_cast<int>(wait)) == 0) {
    return MakeError(v1::REASON_INTERNAL, "it does not answer");
  }
  if (int error = ReceivePacket(socket, packet); error != 0) {
    return ErrnoError(v1::REASON_INTERNAL, error, "recvmsg");
  }
  if (packet.fds_truncated) return MakeError(v1::REASON_DAEMON_LIMIT, "out of descriptors");
  if (packet.bytes.size() < sizeof(header)) return MakeError(v1::REASON_INTERNAL, "no message");
  std::memcpy(&header, packet.bytes.data(), sizeof(header));
  return absl::OkStatus();
}

}  // namespace

class KeeperClient::Entry : public core::KeptEntry {
 public:
  Entry(KeeperClient& client, uint64_t id, std::string record = "")
      : client_(client), id_(id), record_(std::move(record)) {}

  ~Entry() override {
    absl::MutexLock lock(&client_.mutex_);
    client_.entries_.erase(id_);
    if (!record_.empty()) client_.Send(id_);
  }

  void Keep(const keeper::v1::Record& record, std::vector<core::SharedFd> fds) override {
    std::string bytes = record.SerializeAsString();
    std::vector<core::SharedFd> old;  // Closed outside the lock.
    absl::MutexLock lock(&client_.mutex_);
    if (!fds.empty()) old = std::exchange(fds_, std::move(fds));
    // It is there already: a grant repeated, or an entry that was taken over.
    if (record_ == bytes) return;
    record_ = std::move(bytes);
    client_.Send(id_);
  }

  // With the client's mutex held.
  const std::string& record() const { return record_; }
  std::vector<int> fds() const {
    std::vector<int> numbers;
    for (const core::SharedFd& fd : fds_) numbers.push_back(fd.fd);
    return numbers;
  }

 private:
  KeeperClient& client_;
  const uint64_t id_;
  std::string record_;  // Empty: never kept.
  std::vector<core::SharedFd> fds_;
};

KeeperClient::~KeeperClient() {
  *alive_ = false;
  absl::MutexLock lock(&mutex_);
  if (loop_ != nullptr && socket_) loop_->Unwatch(socket_.get());
}

absl::StatusOr<std::vector<core::KeptObject>> KeeperClient::TakeAll(absl::Duration timeout) {
  std::vector<core::KeptObject> kept;
  UniqueFd socket;
  const int error = ConnectTo(path_, socket);
  if (error == ENOENT || error == ECONNREFUSED) return kept;
  if (error != 0) return Unusable(path_, std::strerror(error));
  if (int failed = SendMessage(socket.get(), Op::kTake, 0, "", {}); failed != 0) {
    return Unusable(path_, std::strerror(failed));
  }
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    ReceivedPacket packet;
    Header header{};
    absl::Status received = ReceiveBefore(socket.get(), deadline, packet, header);
    if (!received.ok()) return Unusable(path_, received.message());
    if (header.op == Op::kEnd) break;
    std::string record = packet.bytes.substr(sizeof(header));
    core::KeptObject object;
    // What cannot be parsed stays an empty record, which the broker counts.
    if (!object.record.ParseFromString(record)) object.record.Clear();
    object.fds = std::move(packet.fds);
    absl::MutexLock lock(&mutex_);
    auto entry = std::make_shared<Entry>(*this, header.id, record.empty() ? "?" : record);
    entries_[header.id] = entry.get();
    last_id_ = std::max(last_id_, header.id);
    object.entry = std::move(entry);
    kept.push_back(std::move(object));
  }
  absl::MutexLock lock(&mutex_);
  socket_ = std::move(socket);
  return kept;
}

void KeeperClient::Start(EventLoop& loop) {
  loop_ = &loop;
  bool connected;
  {
    absl::MutexLock lock(&mutex_);
    connected = static_cast<bool>(socket_);
    reset_first_ = !connected;
  }
  if (connected) return WatchFor(EPOLLIN);
  telemetry::Log(
      telemetry::Event::kKeeperLost,
      absl::StrCat("no keeper at ", path_, ": nothing survives this daemon until one is"));
  ConnectLater();
}

void KeeperClient::Leave() {
  absl::MutexLock lock(&mutex_);
  left_ = true;
}

void KeeperClient::Forget() {
  Leave();
  absl::MutexLock lock(&mutex_);
  // Should its queue be full, it learns of our end first, and the next daemon clears up.
  if (socket_) static_cast<void>(SendMessage(socket_.get(), Op::kReset, 0, "", {}));
}

std::shared_ptr<core::KeptEntry> KeeperClient::NewEntry() {
  absl::MutexLock lock(&mutex_);
  const uint64_t id = ++last_id_;
  auto entry = std::make_shared<Entry>(*this, id);
  entries_[id] = entry.get();
  return entry;
}

bool KeeperClient::IsUpToDate() const {
  absl::MutexLock lock(&mutex_);
  return socket_ && !reset_first_ && behind_.empty() && refused_.empty();
}

// ---- Sending.

void KeeperClient::Send(uint64_t id) {
  if (left_) return;
  if (socket_ && !reset_first_ && behind_.empty() && SendNow(id) == 0) return;
  behind_.insert(id);
  if (!socket_ || loop_ == nullptr || std::exchange(wants_room_, true)) return;
  loop_->Post([this, alive = alive_] {
    if (*alive) CatchUp();
  });
}

int KeeperClient::SendNow(uint64_t id) {
  auto found = entries_.find(id);
  if (found == entries_.end()) return SendMessage(socket_.get(), Op::kDrop, id, "", {});
  const Entry& entry = *found->second;
  return SendMessage(socket_.get(), Op::kKeep, id, entry.record(), entry.fds());
}

void KeeperClient::CatchUp() {
  bool done = false;
  bool was_lost = false;
  {
    absl::MutexLock lock(&mutex_);
    if (!socket_) return;
    was_lost = reset_first_;
    if (reset_first_) reset_first_ = SendMessage(socket_.get(), Op::kReset, 0, "", {}) != 0;
    while (!reset_first_ && !behind_.empty() && SendNow(*behind_.begin()) == 0) {
      behind_.erase(behind_.begin());
    }
    done = !reset_first_ && behind_.empty();
    wants_room_ = !done;
  }
  if (done && was_lost) telemetry::Log(telemetry::Event::kKeeperBack, "it has everything again");
  WatchFor(done ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

// ---- The connection.

void KeeperClient::WatchFor(uint32_t events) {
  int fd;
  {
    absl::MutexLock lock(&mutex_);
    fd = socket_.get();
  }
  loop_->Unwatch(fd);
  absl::Status watched = loop_->Watch(fd, events, [this](uint32_t ready) { OnEvents(ready); });
  if (!watched.ok()) Disconnect();
}

void KeeperClient::OnEvents(uint32_t events) {
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !ReceiveRefusal()) return Disconnect();
  if ((events & EPOLLOUT) != 0) CatchUp();
}

bool KeeperClient::ReceiveRefusal() {
  ReceivedPacket packet;
  Header header{};
  {
    absl::MutexLock lock(&mutex_);
    if (int error = ReceivePacket(socket_.get(), packet); error != 0) return error == EAGAIN;
    if (packet.bytes.size() < sizeof(header)) return false;
    std::memcpy(&header, packet.bytes.data(), sizeof(header));
    if (!entries_.contains(header.id)) return true;
    refused_.insert(header.id);
    if (refused_.size() > 1) return true;
  }
  telemetry::LogLimited(telemetry::Event::kKeeperRefused, "the keeper",
                        "an entry was not taken: out of memory, descriptors or room");
  loop_->After(retry_interval_, [this, alive = alive_] {
    if (*alive) RetryRefused();
  });
  return true;
}

void KeeperClient::RetryRefused() {
  {
    absl::MutexLock lock(&mutex_);
    behind_.merge(refused_);
    refused_.clear();
  }
  CatchUp();
}

void KeeperClient::Disconnect() {
  UniqueFd lost;
  {
    absl::MutexLock lock(&mutex_);
    if (!socket_) return;
    loop_->Unwatch(socket_.get());
    lost = std::move(socket_);
    reset_first_ = true;
  }
  telemetry::Log(telemetry::Event::kKeeperLost,
                 "serving on; nothing survives this daemon until then");
  ConnectLater();
}

void KeeperClient::ConnectLater() {
  loop_->After(retry_interval_, [this, alive = alive_] {
    if (*alive) Connect();
  });
}

void KeeperClient::Connect() {
  UniqueFd socket;
  if (ConnectTo(path_, socket) != 0) return ConnectLater();
  {
    absl::MutexLock lock(&mutex_);
    socket_ = std::move(socket);
    behind_.clear();
    refused_.clear();
    for (const auto& [id, entry] : entries_) {
      if (!entry->record().empty()) behind_.insert(id);
    }
  }
  CatchUp();
}

}  // namespace qpbroker::runtime
