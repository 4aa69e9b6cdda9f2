// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_TESTING_FAKE_SESSION_H_
#define QPBROKER_CLIENT_SRC_TESTING_FAKE_SESSION_H_

// The daemon's side of session.sock for tests: what to send, honest or not.

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/unique_fd.h"
#include "qpbroker/v1/session.pb.h"

namespace qpbroker::client::testing {

// A listening SEQPACKET (or other) socket at `path`.
UniqueFd ListenUnix(const std::string& path, int type, int backlog = 64);

// The bytes of an honest greeting with `nonce`.
std::string GreetingBytes(const std::string& nonce, uint32_t version = 1);

// The bytes of a delivery.
std::string DeliveryBytes(const std::string& request_id, uint64_t grant_id,
                          const std::vector<v1::FdKind>& kinds);

// Sends one packet of any length, which SendPacket would refuse to. Waits while the peer's queue is
// full. Returns 0 or an errno value.
int SendRaw(int socket, const std::string& bytes, const std::vector<int>& fds);

// Accepts the next connection of `listener` on a thread and gives it to `serve`.
class AcceptOne {
 public:
  AcceptOne(int listener, std::function<void(UniqueFd)> serve);
  ~AcceptOne() { thread_.join(); }

 private:
  std::thread thread_;
};

}  // namespace qpbroker::client::testing

#endif  // QPBROKER_CLIENT_SRC_TESTING_FAKE_SESSION_H_
