// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_DELIVERY_H_
#define QPBROKER_CLIENT_SRC_DELIVERY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "qpbroker/v1/session.pb.h"

namespace qpbroker::client {

// The descriptors of one grant as they arrived, not yet looked at.
struct Delivery {
  uint64_t grant_id = 0;
  std::vector<v1::FdKind> kinds;
  std::vector<UniqueFd> fds;
  bool fds_truncated = false;
};

// The descriptors, if they are exactly of the kinds `expected` and each is what its kind says: a
// lease is the read end of a pipe, a domain a regular file opened for reading only. A lease is made
// non-blocking. Otherwise all are closed.
// Errors: FD_NOT_DELIVERED (some are missing), PROTOCOL_VIOLATION.
absl::StatusOr<std::vector<UniqueFd>> CheckDelivery(Delivery delivery,
                                                    const std::vector<v1::FdKind>& expected);

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_DELIVERY_H_
