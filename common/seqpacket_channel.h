// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_COMMON_SEQPACKET_CHANNEL_H_
#define QPBROKER_COMMON_SEQPACKET_CHANNEL_H_

// Packets with descriptors over AF_UNIX SOCK_SEQPACKET. Neither call blocks on a non-blocking
// socket, raises SIGPIPE, leaks a descriptor or peeks.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"

namespace qpbroker {

// Longest packet of the session protocol, in bytes.
inline constexpr size_t kMaxPacketBytes = 4096;
// Most descriptors in one packet; the kernel's limit.
inline constexpr size_t kMaxPacketFds = 253;

// A packet as it arrived.
struct ReceivedPacket {
  std::string bytes;
  std::vector<UniqueFd> fds;  // All with O_CLOEXEC set.
  // The kernel dropped descriptors: this process is at its file limit, or a security policy said
  // no.
  bool fds_truncated = false;
  // The packet was longer than kMaxPacketBytes; `bytes` is its beginning.
  bool bytes_truncated = false;
};

// Sends one packet. Returns 0 or the errno value of sendmsg(2): EAGAIN (the peer does not read),
// EPIPE or ECONNRESET (the peer is gone), ETOOMANYREFS (too many descriptors in flight), ...
[[nodiscard]] int SendPacket(int socket, absl::string_view bytes, absl::Span<const int> fds);

// Receives one packet. Returns 0, ENODATA at the end of the stream, or the errno value of
// recvmsg(2). A zero-length packet cannot be told from the end and is taken for it.
[[nodiscard]] int ReceivePacket(int socket, ReceivedPacket& packet);

}  // namespace qpbroker

#endif  // QPBROKER_COMMON_SEQPACKET_CHANNEL_H_
