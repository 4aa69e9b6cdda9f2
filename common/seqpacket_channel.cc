// SPDX-License-Identifier: Apache-2.0
#include "common/seqpacket_channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace qpbroker {
namespace {

// Aligned room for the control message of a full packet.
union ControlBuffer {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
};

// Takes ownership of every descriptor in `message`, also of those that nobody asked for.
void TakeFds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
      fds.emplace_back(fd);
    }
  }
}

}  // namespace

int SendPacket(int socket, absl::string_view bytes, absl::Span<const int> fds) {
  if (fds.size() > kMaxPacketFds || bytes.size() > kMaxPacketBytes) return EMSGSIZE;
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  ControlBuffer control;
  if (!fds.empty()) {
    size_t fd_bytes = fds.size() * sizeof(int);
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(fd_bytes);
    std::memset(control.bytes, 0, message.msg_controllen);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_bytes);
    std::memcpy(CMSG_DATA(header), fds.data(), fd_bytes);
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

int ReceivePacket(int socket, ReceivedPacket& packet) {
  packet = ReceivedPacket();
  packet.bytes.resize(kMaxPacketBytes);
  iovec piece{packet.bytes.data(), packet.bytes.size()};
  // All of it is set anew for each call: a reused control buffer once made others take an old
  // number for a new descriptor.
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return errno;
  TakeFds(message, packet.fds);
  packet.fds_truncated = (message.msg_flags & MSG_CTRUNC) != 0;
  packet.bytes_truncated = (message.msg_flags & MSG_TRUNC) != 0;
  packet.bytes.resize(static_cast<size_t>(received));
  return received == 0 ? ENODATA : 0;
}

}  // namespace qpbroker
