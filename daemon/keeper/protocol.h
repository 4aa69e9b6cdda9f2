// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_KEEPER_PROTOCOL_H_
#define QPBROKER_DAEMON_KEEPER_PROTOCOL_H_

// What qpbrokerd and its keeper say to each other on an AF_UNIX SOCK_SEQPACKET connection: one
// packet a message, a Header and behind it `size` bytes of record, with descriptors beside it by
// SCM_RIGHTS. Both are processes of one machine: the machine's byte order.
//
// Entries have an id that the daemon chooses; to the keeper records are bytes.

#include <cstddef>
#include <cstdint>

namespace qpbroker::keeper {

enum class Op : uint32_t {
  // Daemon to keeper.
  kKeep = 1,   // Stores an entry, or replaces its record; its descriptors too if there are any.
  kDrop = 2,   // Forgets an entry and closes its descriptors. An unknown one is no error.
  kTake = 3,   // Asks for everything: each entry by kEntry, in the order of ids, then kEnd.
  kReset = 4,  // Forgets everything.
  // Keeper to daemon.
  kEntry = 16,    // An entry, with copies of its descriptors.
  kEnd = 17,      // No more entries; `id` is how many there were.
  kRefused = 18,  // The entry `id` could not be stored: out of memory, descriptors or room.
};

struct Header {
  Op op;
  uint32_t size = 0;  // Bytes of the record.
  uint64_t id = 0;
};
static_assert(sizeof(Header) == 16);

inline constexpr size_t kMaxMessageBytes = 4096;
inline constexpr size_t kMaxRecordBytes = kMaxMessageBytes - sizeof(Header);
// Most descriptors of one entry.
inline constexpr size_t kMaxEntryFds = 4;
inline constexpr size_t kMaxEntries = size_t{1} << 20;

}  // namespace qpbroker::keeper

#endif  // QPBROKER_DAEMON_KEEPER_PROTOCOL_H_
