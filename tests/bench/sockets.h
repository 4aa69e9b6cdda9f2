// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_TESTS_BENCH_SOCKETS_H_
#define QPBROKER_TESTS_BENCH_SOCKETS_H_

#include <sys/socket.h>

#include <string>

namespace qpbroker::bench {

// A listening, and a connected, Unix socket. Connect waits for the server to come.
int Listen(const std::string& path, int type);
int Connect(const std::string& path, int type);

}  // namespace qpbroker::bench

#endif  // QPBROKER_TESTS_BENCH_SOCKETS_H_
