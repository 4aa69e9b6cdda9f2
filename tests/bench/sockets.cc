// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/sockets.h"

#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/bench/contestants.h"

namespace qpbroker::bench {
namespace {

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

}  // namespace

int Listen(const std::string& path, int type) {
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  const sockaddr_un address = AddressOf(path);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd, 16) != 0) {
    Die("listen on " + path);
  }
  return fd;
}

int Connect(const std::string& path, int type) {
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  const sockaddr_un address = AddressOf(path);
  for (int tries = 0; tries < 500; ++tries) {
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  Die("connect to " + path);
}

}  // namespace qpbroker::bench
