// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "common/seqpacket_channel.h"
#include "tests/bench/contestants.h"
#include "tests/bench/sockets.h"

namespace qpbroker::bench {

int ServeRawFd(const std::string& socket) {
  const int listener = Listen(socket, SOCK_SEQPACKET);
  const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  char byte;
  while (recv(connection, &byte, 1, 0) == 1) {
    // A new pipe each time, as a grant is.
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) Die("pipe2");
    const int fds[] = {ends[0]};
    if (SendPacket(connection, "x", fds) != 0) Die("sendmsg");
    close(ends[0]);
    close(ends[1]);
  }
  return 0;
}

Contestant RawFd(const std::string& socket) {
  const int connection = Connect(socket, SOCK_SEQPACKET);
  return {"raw SCM_RIGHTS", [connection] {
            ReceivedPacket packet;
            if (send(connection, "x", 1, MSG_NOSIGNAL) != 1 ||
                ReceivePacket(connection, packet) != 0 || packet.fds.size() != 1) {
              Die("raw SCM_RIGHTS");
            }
          }};
}

}  // namespace qpbroker::bench
