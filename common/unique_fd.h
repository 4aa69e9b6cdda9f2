// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_COMMON_UNIQUE_FD_H_
#define QPBROKER_COMMON_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace qpbroker {

// Owns a file descriptor and closes it. Move-only; not thread-safe.
//
//   UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
//   if (!fd) return ErrnoError(...);
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  // close(2) is never retried: on Linux the descriptor is gone even after EINTR.
  void reset(int fd = -1) {
    int old = std::exchange(fd_, fd);
    if (old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace qpbroker

#endif  // QPBROKER_COMMON_UNIQUE_FD_H_
