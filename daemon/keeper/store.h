// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_KEEPER_STORE_H_
#define QPBROKER_DAEMON_KEEPER_STORE_H_

// The keeper's entries, in a tree of libc's (tsearch), and their way through an exec of the
// keeper's next version: a memory file with every entry, and the descriptors left open. One thread.

#include "daemon/keeper/protocol.h"

namespace qpbroker::keeper {

struct Entry {
  uint64_t id;
  uint32_t size;  // Bytes of the record.
  uint32_t fd_count;
  int fds[kMaxEntryFds];
  char record[];
};

class Store {
 public:
  // Stores a copy of `entry`, and owns its descriptors, if it returns true. Without descriptors
  // those of the entry with that id stay. False, with nothing changed: out of memory or room.
  bool Keep(const Entry& entry);
  // Closes the descriptors. No such entry is no error.
  void Drop(uint64_t id);
  void Reset();

  // Calls `visit` for each entry in the order of ids.
  void ForEach(void (*visit)(const Entry& entry, void* context), void* context) const;
  size_t entries() const { return entries_; }
  size_t descriptors() const { return descriptors_; }

  // Writes everything to a memory file, and returns its descriptor, or -1.
  int Freeze() const;
  // Takes over what Freeze wrote before an exec, and closes the file. False: it is not whole.
  bool Thaw(int memory_file);

 private:
  void* tree_ = nullptr;
  size_t entries_ = 0;
  size_t descriptors_ = 0;
};

}  // namespace qpbroker::keeper

#endif  // QPBROKER_DAEMON_KEEPER_STORE_H_
