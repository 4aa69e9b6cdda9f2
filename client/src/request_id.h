// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_REQUEST_ID_H_
#define QPBROKER_CLIENT_SRC_REQUEST_ID_H_

#include <string>

namespace qpbroker::client {

// A random UUID (version 4). From the kernel each time: a generator with a state of its own would
// give parent and child the same numbers after fork(2).
std::string NewRequestId();

}  // namespace qpbroker::client

#endif  // QPBROKER_CLIENT_SRC_REQUEST_ID_H_
