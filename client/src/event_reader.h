// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_EVENT_READER_H_
#define QPBROKER_CLIENT_SRC_EVENT_READER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "qpbroker/lease.h"

namespace qpbroker::client {

// Turns what is read from a lease's pipe into events. The daemon writes whole records, but a read
// may end within one; the rest of it is kept for the next.
class EventReader {
 public:
  // Reads what is there now, at most some hundred records, and appends its events. Does not block
  // on a non-blocking `fd`. Unknown kinds are left out, longer records of later versions are cut.
  // The last event is kGone, once. PROTOCOL_VIOLATION: what was read cannot be records; it is
  // thrown away.
  absl::Status Read(int fd, std::vector<Event>& events);

  bool gone() const { return gone_; }

 private:
  absl::Status Parse(std::vector<Event>& events);

  std::string pending_;
  bool gone_ = false;
};

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_EVENT_READER_H_
