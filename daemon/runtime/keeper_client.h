// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RUNTIME_KEEPER_CLIENT_H_
#define QPBROKER_DAEMON_RUNTIME_KEEPER_CLIENT_H_

// The daemon's side of the keeper (daemon/keeper): every entry of the books goes there, and comes
// back to the next daemon.
//
//   KeeperClient keeper("/run/qpbroker/keeper.sock");
//   auto kept = keeper.TakeAll(absl::Seconds(5));   // at start, once
//   keeper.Start(loop);                             // from now on it looks after the connection
//   std::shared_ptr<core::KeptEntry> entry = keeper.NewEntry();
//   entry->Keep(record, {{file, file->fd()}});
//
// Nothing waits for the keeper. What it cannot take at once, because it is slow, stopped or gone,
// is noted as behind and sent as soon as it can be; what it refused is sent again after a while; a
// keeper that was started anew gets everything.
//
// Threads: entries are used from any thread; the rest from the loop's. Entries must
// not outlive the client.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/event_loop.h"
#include "common/unique_fd.h"
#include "daemon/core/ports.h"

namespace qpbroker::runtime {

class KeeperClient : public core::KeeperPort {
 public:
  explicit KeeperClient(std::string path, absl::Duration retry_interval = absl::Seconds(1))
      : path_(std::move(path)), retry_interval_(retry_interval) {}
  KeeperClient(const KeeperClient&) = delete;
  KeeperClient& operator=(const KeeperClient&) = delete;
  ~KeeperClient() override;

  // What an earlier daemon left, as it is with the keeper: nothing of it is dropped until its entry
  // is destroyed. Empty if there is no keeper. An error: the keeper does not answer in time, or
  // cannot be understood.
  absl::StatusOr<std::vector<core::KeptObject>> TakeAll(absl::Duration timeout);
  // Watches the connection, and looks for a keeper as long as there is none.
  void Start(EventLoop& loop);
  // Nothing is sent any more: the keeper holds what it holds now for the next daemon.
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);
  // Has the keeper drop everything, and then the same.
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_);

  std::shared_ptr<core::KeptEntry> NewEntry() override ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the keeper has everything that it should.
  bool IsUpToDate() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Entry;

  void Send(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // 0, or the errno value of sendmsg(2).
  int SendNow(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends what is behind, until it would block.
  void CatchUp() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEvents(uint32_t events);
  // False: the connection is over.
  bool ReceiveRefusal();
  void RetryRefused();
  void Connect();
  void ConnectLater();
  void Disconnect();
  void WatchFor(uint32_t events);

  const std::string path_;
  const absl::Duration retry_interval_;
  EventLoop* loop_ = nullptr;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  mutable absl::Mutex mutex_;
  UniqueFd socket_ ABSL_GUARDED_BY(mutex_);
  bool reset_first_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool wants_room_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::btree_map<uint64_t, Entry*> entries_ ABSL_GUARDED_BY(mutex_);
  // Entries of which the keeper does not have the last state; those that are gone, too.
  absl::btree_set<uint64_t> behind_ ABSL_GUARDED_BY(mutex_);
  // Entries that it had no room for, until they are sent again.
  absl::btree_set<uint64_t> refused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qpbroker::runtime

#endif  // QPBROKER_DAEMON_RUNTIME_KEEPER_CLIENT_H_
