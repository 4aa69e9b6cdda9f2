// SPDX-License-Identifier: Apache-2.0
#include "client/src/testing/grant_fds.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace qpbroker::client::testing {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::abort();
}

}  // namespace

GrantFds MakeGrantFds(const std::string& dir, const std::string& text) {
  GrantFds fds;
  std::array<int, 2> ends{};
  Require(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0, "pipe2");
  fds.lease.reset(ends[0]);
  fds.lease_end.reset(ends[1]);
  std::string path = dir + "/domain-XXXXXX";
  UniqueFd writable(mkostemp(path.data(), O_CLOEXEC));
  Require(static_cast<bool>(writable), "mkostemp");
  Require(write(writable.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
          "write");
  fds.file.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Require(static_cast<bool>(fds.file), "open");
  unlink(path.c_str());
  return fds;
}

bool LeaseIsHeld(const UniqueFd& lease_end) {
  pollfd entry{lease_end.get(), 0, 0};
  Require(poll(&entry, 1, 0) >= 0, "poll");
  return (entry.revents & POLLERR) == 0;
}

std::string ContentOf(int fd) {
  std::array<char, 256> buffer{};
  ssize_t length = pread(fd, buffer.data(), buffer.size(), 0);
  return length < 0 ? std::string() : std::string(buffer.data(), static_cast<size_t>(length));
}

// Short: a Unix socket's path has 107 bytes, and a test's own folder may be deep.
std::string MakeTempDir() {
  std::string path = "/tmp/qpb-XXXXXX";
  Require(mkdtemp(path.data()) != nullptr, "mkdtemp");
  return path;
}

}  // namespace qpbroker::client::testing
