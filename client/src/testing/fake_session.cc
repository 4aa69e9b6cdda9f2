// SPDX-License-Identifier: Apache-2.0
#include "client/src/testing/fake_session.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace qpbroker::client::testing {

UniqueFd ListenUnix(const std::string& path, int type, int backlog) {
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  unlink(path.c_str());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), backlog) != 0) {
    std::perror(path.c_str());
    std::abort();
  }
  return fd;
}

std::string GreetingBytes(const std::string& nonce, uint32_t version) {
  v1::SessionPacket packet;
  packet.mutable_greeting()->set_protocol_version(version);
  packet.mutable_greeting()->set_nonce(nonce);
  packet.mutable_greeting()->set_session("sessions/1@000000000000");
  return packet.SerializeAsString();
}

std::string DeliveryBytes(const std::string& request_id, uint64_t grant_id,
                          const std::vector<v1::FdKind>& kinds) {
  v1::SessionPacket packet;
  packet.mutable_delivery()->set_request_id(request_id);
  packet.mutable_delivery()->set_grant_id(grant_id);
  for (v1::FdKind kind : kinds) packet.mutable_delivery()->add_fds(kind);
  return packet.SerializeAsString();
}

int SendRaw(int socket, const std::string& bytes, const std::vector<int>& fds) {
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

AcceptOne::AcceptOne(int listener, std::function<void(UniqueFd)> serve)
    : thread_([listener, serve = std::move(serve)] {
        int fd;
        do {
          fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        } while (fd < 0 && errno == EINTR);
        serve(UniqueFd(fd));
      }) {}

}  // namespace qpbroker::client::testing
