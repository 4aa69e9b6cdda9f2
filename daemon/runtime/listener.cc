// SPDX-License-Identifier: Apache-2.0
//
// bind(2) gives a socket's file the mode of the socket's own inode, less the umask. Setting that
// mode before bind therefore leaves no moment in which the socket is open to more people than it
// should be; it is bound under a temporary name, given its group, and then renamed to its place.
#include "daemon/runtime/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "daemon/telemetry/log.h"

namespace qpbroker::runtime {
namespace {

constexpr int kBacklog = 128;
constexpr int kAcceptsAtOnce = 64;
constexpr absl::Duration kPause = absl::Milliseconds(100);

absl::Status Failed(absl::string_view what, const std::string& path) {
  return ErrnoError(v1::REASON_INVALID_FIELD, errno, absl::StrCat(what, " ", path));
}

UniqueFd OpenReserve() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// What is at `path` may be replaced: nothing, or a socket.
absl::Status CheckReplaceable(const std::string& path) {
  struct stat found;
  if (lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? absl::OkStatus() : Failed("stat", path);
  }
  if (S_ISSOCK(found.st_mode)) return absl::OkStatus();
  return MakeError(v1::REASON_INVALID_FIELD,
                   absl::StrCat(path, " is in the way and is not a socket; remove it"));
}

absl::Status BindAt(int socket, const std::string& path, const SocketConfig& config) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return MakeError(v1::REASON_INVALID_FIELD,
                     absl::StrCat("runtime_dir is too long for a socket's path: ", path));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (fchmod(socket, config.mode) != 0) return Failed("fchmod", path);
  unlink(path.c_str());
  if (bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Failed("bind", path);
  }
  // The group first: the mode's bits may be wider than what an earlier group should have.
  if (lchown(path.c_str(), geteuid(), config.group) != 0) return Failed("chown", path);
  if (chmod(path.c_str(), config.mode) != 0) return Failed("chmod", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> LockRuntimeDirectory(const std::string& directory) {
  if (mkdir(directory.c_str(), 0755) == 0) {
    // Whatever the umask is, clients must be able to come in.
    if (chmod(directory.c_str(), 0755) != 0) return Failed("chmod", directory);
  } else if (errno != EEXIST) {
    return Failed("mkdir", directory);
  }
  const std::string path = absl::StrCat(directory, "/qpbrokerd.lock");
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!lock) return Failed("open", path);
  char text[32] = {};
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed("flock", path);
    [[maybe_unused]] ssize_t n = read(lock.get(), text, sizeof(text) - 1);
    return MakeError(
        v1::REASON_INVALID_FIELD,
        absl::StrCat("another qpbrokerd (pid ", absl::StripAsciiWhitespace(absl::string_view(text)),
                     ") serves ", directory));
  }
  const int size = std::snprintf(text, sizeof(text), "%d\n", static_cast<int>(getpid()));
  if (ftruncate(lock.get(), 0) != 0 || write(lock.get(), text, static_cast<size_t>(size)) != size) {
    return Failed("write", path);
  }
  return lock;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(EventLoop& loop,
                                                         const SocketConfig& config, int type,
                                                         OnAccept on_accept) {
  UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return Failed("socket", config.path);
  if (absl::Status status = CheckReplaceable(config.path); !status.ok()) return status;
  const std::string temporary = absl::StrCat(config.path, ".new");
  absl::Cleanup remove_temporary = [&temporary] { unlink(temporary.c_str()); };
  if (absl::Status status = BindAt(socket.get(), temporary, config); !status.ok()) return status;
  if (listen(socket.get(), kBacklog) != 0) return Failed("listen", config.path);
  if (rename(temporary.c_str(), config.path.c_str()) != 0) return Failed("rename", config.path);
  std::move(remove_temporary).Cancel();
  std::unique_ptr<Listener> listener(
      new Listener(loop, std::move(socket), config.path, std::move(on_accept)));
  if (absl::Status status = listener->Start(); !status.ok()) return status;
  return listener;
}

Listener::Listener(EventLoop& loop, UniqueFd socket, std::string path, OnAccept on_accept)
    : loop_(loop),
      socket_(std::move(socket)),
      path_(std::move(path)),
      on_accept_(std::move(on_accept)),
      reserve_(OpenReserve()) {}

absl::Status Listener::Start() {
  struct stat made;
  if (stat(path_.c_str(), &made) != 0) return Failed("stat", path_);
  device_ = made.st_dev;
  inode_ = made.st_ino;
  return loop_.Watch(socket_.get(), EPOLLIN, [this](uint32_t) { Accept(); });
}

Listener::~Listener() {
  *alive_ = false;
  loop_.Unwatch(socket_.get());
  struct stat found;
  if (lstat(path_.c_str(), &found) == 0 && found.st_dev == device_ && found.st_ino == inode_) {
    unlink(path_.c_str());
  }
}

void Listener::Accept() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    if (!AcceptOne()) return;
  }
}

bool Listener::AcceptOne() {
  UniqueFd accepted(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (accepted) {
    on_accept_(std::move(accepted));
    return true;
  }
  switch (errno) {
    case EAGAIN:
      return false;
    case EINTR:
    case ECONNABORTED:
      return true;
    case EMFILE:
    case ENFILE:
      RejectOne();
      return false;
    default:  // ENOMEM, ENOBUFS, ...: the connection stays in the backlog.
      PauseAccepting();
      return false;
  }
}

// A client that waits for an accept that never comes learns nothing; one whose connection is closed
// does. Without this the loop would also be woken again at once, for ever.
void Listener::RejectOne() {
  telemetry::LogLimited(telemetry::Event::kOutOfDescriptors, path_, "clients are turned away");
  reserve_.reset();
  UniqueFd rejected(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  rejected.reset();
  reserve_ = OpenReserve();
  if (!reserve_) PauseAccepting();
}

void Listener::PauseAccepting() {
  loop_.Unwatch(socket_.get());
  loop_.After(kPause, [this, alive = alive_] {
    if (!*alive) return;
    if (!reserve_) reserve_ = OpenReserve();
    if (!loop_.Watch(socket_.get(), EPOLLIN, [this](uint32_t) { Accept(); }).ok()) {
      PauseAccepting();
    }
  });
}

}  // namespace qpbroker::runtime
