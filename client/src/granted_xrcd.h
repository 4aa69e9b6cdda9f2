// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_GRANTED_XRCD_H_
#define QPBROKER_CLIENT_SRC_GRANTED_XRCD_H_

#include "common/unique_fd.h"
#include "qpbroker/lease.h"
#include "qpbroker/types.h"

namespace qpbroker::client {

// What is behind an Xrcd.
struct GrantedXrcd {
  Lease lease;
  UniqueFd file;
  XrcdInfo info;
  bool created = false;
};

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_GRANTED_XRCD_H_
