// SPDX-License-Identifier: Apache-2.0
#include "client/src/delivery.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"

namespace qpbroker::client {
namespace {

// Opened for reading and nothing else; O_PATH would be good for nothing.
bool OpenedForReading(int flags) { return (flags & (O_ACCMODE | O_PATH)) == O_RDONLY; }

bool IsLease(int fd, const struct stat& status, int flags) {
  if (!S_ISFIFO(status.st_mode) || !OpenedForReading(flags)) return false;
  // A reader that forked could otherwise be left blocked by an event that its child took.
  return fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

bool IsWhatItShouldBe(int fd, v1::FdKind kind) {
  struct stat status {};
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fstat(fd, &status) != 0) return false;
  switch (kind) {
    case v1::FD_KIND_LEASE:
      return IsLease(fd, status, flags);
    case v1::FD_KIND_XRCD:
      return S_ISREG(status.st_mode) && OpenedForReading(flags);
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<std::vector<UniqueFd>> CheckDelivery(Delivery delivery,
                                                    const std::vector<v1::FdKind>& expected) {
  if (delivery.fds_truncated || delivery.fds.size() < delivery.kinds.size()) {
    return MakeError(v1::REASON_FD_NOT_DELIVERED, {},
                     {{"expected", absl::StrCat(delivery.kinds.size())},
                      {"received", absl::StrCat(delivery.fds.size())}});
  }
  if (delivery.kinds != expected || delivery.fds.size() != expected.size()) {
    return MakeError(v1::REASON_PROTOCOL_VIOLATION,
                     "the daemon delivered other descriptors than this call is answered with",
                     {{"expected", absl::StrCat(expected.size())},
                      {"received", absl::StrCat(delivery.fds.size())}});
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!IsWhatItShouldBe(delivery.fds[i].get(), expected[i])) {
      return MakeError(v1::REASON_PROTOCOL_VIOLATION,
                       "a delivered descriptor is not what the daemon says that it is",
                       {{"kind", v1::FdKind_Name(expected[i])}});
    }
  }
  return std::move(delivery.fds);
}

}  // namespace qpbroker::client
