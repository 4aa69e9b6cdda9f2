// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_SESSION_CHANNEL_H_
#define QPBROKER_CLIENT_SRC_SESSION_CHANNEL_H_

// The client's end of session.sock: takes descriptors in and hands each to the call that waits.
//
//   absl::StatusOr<SessionChannel::Expectation> expected = channel.Expect(request_id);
//   ... the call, whose answer names the grant ...
//   absl::StatusOr<std::vector<UniqueFd>> fds =
//       expected->Take(grant_id, {v1::FD_KIND_LEASE}, deadline);
//
// There is no thread behind it. Whoever waits reads for all; the others wait for that one. What
// nobody expects is closed, and with it the reference that it stood for.
//
// Threads: any number. In a forked child nothing but AbandonInChild may be called, the destructor
// neither: other threads may have been in the middle of a change when the process forked.

#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/src/deadline.h"
#include "client/src/delivery.h"
#include "common/seqpacket_channel.h"
#include "common/unique_fd.h"

namespace qpbroker::client {

class SessionChannel {
 public:
  // A call that waits for descriptors. Move-only; must not outlive its channel. Destroying it gives
  // up: what came or will come for the call is closed.
  class Expectation {
   public:
    Expectation(Expectation&& other) noexcept;
    Expectation& operator=(Expectation&&) = delete;
    ~Expectation();

    // The descriptors of the grant, one of each kind in `kinds`, checked to be what they should be.
    // Call it when the answer is there: the daemon sends descriptors first, so it waits only for
    // another thread that is just reading them, or for a daemon that misbehaves, and not for long.
    // Errors: FD_NOT_DELIVERED, PROTOCOL_VIOLATION, SESSION_GONE.
    absl::StatusOr<std::vector<UniqueFd>> Take(uint64_t grant_id,
                                               const std::vector<v1::FdKind>& kinds,
                                               Deadline deadline);

   private:
    friend class SessionChannel;
    Expectation(SessionChannel* channel, std::string request_id);

    SessionChannel* channel_;
    std::string request_id_;
  };

  // Connects and reads the greeting.
  // Errors: those of ConnectUnix, DAEMON_UNREACHABLE (closed without a greeting),
  // PROTOCOL_VIOLATION.
  static absl::StatusOr<std::unique_ptr<SessionChannel>> Connect(const std::string& path,
                                                                 Deadline deadline);

  // The 16 bytes to present in Attach.
  const std::string& nonce() const { return nonce_; }
  int fd() const { return socket_.get(); }

  // Registers a call. Errors: SESSION_GONE; REQUEST_IN_PROGRESS if this process has a call with
  // this request_id already.
  absl::StatusOr<Expectation> Expect(const std::string& request_id);

  // In a forked child: closes this process's copy of the socket and leaves all else as it is.
  void AbandonInChild() { ::close(socket_.get()); }

  // Closes what nobody waits for. Never blocks. SESSION_GONE once the session has ended.
  absl::Status Drain();

 private:
  struct Waiter {
    std::vector<Delivery> deliveries;
    uint64_t violations_before = 0;
  };

  SessionChannel(UniqueFd socket, std::string nonce);

  absl::StatusOr<Delivery> Await(const std::string& request_id, uint64_t grant_id,
                                 Deadline deadline);
  bool TakeMatching(const std::string& request_id, uint64_t grant_id, Delivery& delivery)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitOtherReader(Deadline deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads one packet, unlocked meanwhile. False: none came in time, or the session ended.
  bool ReadOne(Deadline deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dispatch(ReceivedPacket packet) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NothingCame(const std::string& request_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUp(const std::string& request_id);

  const UniqueFd socket_;
  const std::string nonce_;

  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t packets_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t violations_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Waiter, std::less<>> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_SESSION_CHANNEL_H_
