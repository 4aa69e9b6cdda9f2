// SPDX-License-Identifier: Apache-2.0
#include "client/src/request_id.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace qpbroker::client {
namespace {

std::array<uint8_t, 16> RandomBytes() {
  std::array<uint8_t, 16> bytes{};
  ssize_t got;
  do {
    got = getrandom(bytes.data(), bytes.size(), 0);  // So few bytes come in one piece.
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(bytes.size())) {
    std::perror("qpbroker: getrandom");  // No kernel that qpbroker runs on can get here.
    std::abort();
  }
  return bytes;
}

}  // namespace

std::string NewRequestId() {
  std::array<uint8_t, 16> bytes = RandomBytes();
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);  // Version 4.
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);  // Variant of RFC 4122.
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kHex[bytes[i] >> 4];
    text += kHex[bytes[i] & 0xf];
  }
  return text;
}

}  // namespace qpbroker::client
