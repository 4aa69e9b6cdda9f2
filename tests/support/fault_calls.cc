// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fault_calls.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>

namespace qpbroker::testing {
namespace {

std::atomic<SystemCall> failing_call{SystemCall::kSendmsg};
std::atomic<int> fails_in{0};  // 0: no fault is set.
std::atomic<int> failing_errno{0};

std::atomic<int> kill_point{-1};
std::atomic<int> points_passed{0};

void PassPoint() {
  if (points_passed.fetch_add(1) == kill_point.load()) kill(getpid(), SIGKILL);
}

// The points before and behind a call.
struct Points {
  Points() { PassPoint(); }
  ~Points() { PassPoint(); }
};

// Whether this call is the one that is to fail; errno is then set.
bool FailsNow(SystemCall call) {
  if (failing_call.load() != call) return false;
  int left = fails_in.load();
  while (left > 0 && !fails_in.compare_exchange_weak(left, left - 1)) {
  }
  if (left != 1) return false;
  errno = failing_errno.load();
  return true;
}

}  // namespace

void FailNth(SystemCall call, int n, int errno_value) {
  fails_in = 0;
  failing_call = call;
  failing_errno = errno_value;
  fails_in = n;
}

void KillAtPoint(int point) {
  points_passed = 0;
  kill_point = point;
}

bool ClearFault() { return fails_in.exchange(0) == 0; }

const char* NameOf(SystemCall call) {
  switch (call) {
    case SystemCall::kSendmsg:
      return "sendmsg";
    case SystemCall::kRecvmsg:
      return "recvmsg";
    case SystemCall::kPipe2:
      return "pipe2";
    case SystemCall::kAccept4:
      return "accept4";
    case SystemCall::kOpenat:
      return "openat";
    case SystemCall::kOpen:
      return "open";
    case SystemCall::kEpollCtl:
      return "epoll_ctl";
    case SystemCall::kFcntl:
      return "fcntl";
  }
  return "unknown";
}

}  // namespace qpbroker::testing

// The names that the linker's --wrap gives to callers (__wrap_) and to the real thing (__real_).
extern "C" {

using qpbroker::testing::FailsNow;
using qpbroker::testing::Points;
using qpbroker::testing::SystemCall;

ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  Points points;
  return FailsNow(SystemCall::kSendmsg) ? -1 : __real_sendmsg(fd, message, flags);
}

ssize_t __real_recvmsg(int fd, msghdr* message, int flags);
ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
  Points points;
  return FailsNow(SystemCall::kRecvmsg) ? -1 : __real_recvmsg(fd, message, flags);
}

int __real_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags) {
  Points points;
  return FailsNow(SystemCall::kPipe2) ? -1 : __real_pipe2(ends, flags);
}

int __real_accept4(int fd, sockaddr* address, socklen_t* size, int flags);
int __wrap_accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  Points points;
  return FailsNow(SystemCall::kAccept4) ? -1 : __real_accept4(fd, address, size, flags);
}

int __real_openat(int directory, const char* path, int flags, mode_t mode);
int __wrap_openat(int directory, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  Points points;
  return FailsNow(SystemCall::kOpenat) ? -1 : __real_openat(directory, path, flags, mode);
}

int __real_open(const char* path, int flags, mode_t mode);
int __wrap_open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  Points points;
  return FailsNow(SystemCall::kOpen) ? -1 : __real_open(path, flags, mode);
}

int __real_epoll_ctl(int epoll, int operation, int fd, epoll_event* event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  Points points;
  // Taking a descriptor out of a set cannot fail in the kernel.
  return operation == EPOLL_CTL_ADD && FailsNow(SystemCall::kEpollCtl)
             ? -1
             : __real_epoll_ctl(epoll, operation, fd, event);
}

int __real_fcntl(int fd, int command, long argument);
int __wrap_fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  Points points;
  return command == F_DUPFD_CLOEXEC && FailsNow(SystemCall::kFcntl)
             ? -1
             : __real_fcntl(fd, command, argument);
}

}  // extern "C"
