// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RUNTIME_LISTENER_H_
#define QPBROKER_DAEMON_RUNTIME_LISTENER_H_

// The daemon's place in the file system: its directory, which one daemon at a time holds, and the
// sockets in it.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/event_loop.h"
#include "common/unique_fd.h"
#include "daemon/runtime/config.h"

namespace qpbroker::runtime {

// Makes `directory` (mode 0755) if it does not exist and locks it. An error names the process that
// holds it. The lock goes with the descriptor, that is, with the process.
absl::StatusOr<UniqueFd> LockRuntimeDirectory(const std::string& directory);

// A listening Unix socket. The loop's thread.
class Listener {
 public:
  using OnAccept = std::function<void(UniqueFd socket)>;

  // `type`: SOCK_STREAM or SOCK_SEQPACKET. The runtime directory must be locked by the caller: a
  // socket that is found at the path is then a dead daemon's and is replaced. What is not a socket
  // is left alone, and is an error. The socket has its mode and group before anybody can connect to
  // it.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(EventLoop& loop, const SocketConfig& config,
                                                        int type, OnAccept on_accept);
  // Removes the socket if it is still ours.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  Listener(EventLoop& loop, UniqueFd socket, std::string path, OnAccept on_accept);
  absl::Status Start();
  void Accept();
  // False when there is nothing to accept, or nothing can be.
  bool AcceptOne();
  void RejectOne();
  void PauseAccepting();

  EventLoop& loop_;
  const UniqueFd socket_;
  const std::string path_;
  const OnAccept on_accept_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  // Given up for a moment when there are no descriptors, to tell a client so by closing.
  UniqueFd reserve_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace qpbroker::runtime

#endif  // QPBROKER_DAEMON_RUNTIME_LISTENER_H_
