// SPDX-License-Identifier: Apache-2.0
#include "client/src/socket_io.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/error_reason.h"

namespace qpbroker::client {
namespace {

absl::Status SystemError(v1::Reason reason, int errno_value, absl::string_view call,
                         const std::string& path) {
  absl::Status status = ErrnoError(reason, errno_value, call, {{"path", path}});
  absl::Status with_path(status.code(), absl::StrCat(status.message(), ": ", path));
  if (auto info = ErrorInfoOf(status)) SetErrorInfo(*info, with_path);
  return with_path;
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // An empty path or a NUL would name an abstract socket, which anybody may bind.
  if (path.empty() || path.size() >= sizeof(address.sun_path) ||
      path.find('\0') != std::string::npos) {
    return MakeError(v1::REASON_INVALID_FIELD, "the path of the daemon's socket is not usable",
                     {{"field", "runtime_dir"}, {"path", path}});
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// A connect(2) of a non-blocking Unix socket does not go on in the background: with a full backlog
// it fails with EAGAIN, and nothing tells when to try again. So the socket blocks, for as long as
// its send timeout says.
int ConnectWithin(int socket, const sockaddr_un& address, Deadline deadline) {
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::microseconds>(Remaining(deadline));
    if (left.count() == 0) return ETIMEDOUT;  // A zero SO_SNDTIMEO would mean for ever.
    timeval timeout{};
    timeout.tv_sec = static_cast<time_t>(left.count() / 1'000'000);
    timeout.tv_usec = static_cast<suseconds_t>(left.count() % 1'000'000);
    if (setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) != 0) return errno;
    if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
      return 0;
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
}

int SetNonBlocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return errno;
  return 0;
}

}  // namespace

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path, int type, Deadline deadline) {
  absl::StatusOr<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return address.status();
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd) return SystemError(v1::REASON_FD_NOT_DELIVERED, errno, "socket", path);
  int error = ConnectWithin(fd.get(), *address, deadline);
  if (error == ETIMEDOUT) {
    return MakeError(v1::REASON_DEADLINE_EXCEEDED,
                     absl::StrCat("the daemon did not accept a connection in time: ", path),
                     {{"path", path}});
  }
  if (error == 0) error = SetNonBlocking(fd.get());
  if (error != 0) return SystemError(v1::REASON_DAEMON_UNREACHABLE, error, "connect", path);
  return fd;
}

bool WaitReadable(int fd, Deadline deadline) {
  pollfd entry{fd, POLLIN, 0};
  for (;;) {
    auto left = Remaining(deadline);
    timespec timeout{};
    timeout.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
    timeout.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
    int ready = ppoll(&entry, 1, &timeout, nullptr);
    if (ready > 0) return true;
    if (ready == 0) return false;
    // EINTR and ENOMEM pass; nothing else can happen to a valid descriptor.
    if (Expired(deadline)) return false;
  }
}

}  // namespace qpbroker::client
