// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_TESTS_BENCH_CONTESTANTS_H_
#define QPBROKER_TESTS_BENCH_CONTESTANTS_H_

// What is measured against each other. Each contestant has a server process of its own and does one
// call at a time.

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qpbroker::bench {

struct Contestant {
  std::string name;
  std::function<void()> call;  // One operation; ends the program if it fails.
};

// A child process: killed and waited for when it goes.
class Child {
 public:
  // Executes `arguments` (a path first).
  explicit Child(const std::vector<std::string>& arguments);
  Child(Child&& other) noexcept : pid_(other.pid_) { other.pid_ = -1; }
  Child(const Child&) = delete;
  ~Child();

 private:
  int pid_;
};

// A unary call to a gRPC server that does nothing: callback API, one server object for the
// connection.
Contestant BareGrpc(const std::string& socket);
// WhoAmI of the broker: the same call, with what the broker has around it.
Contestant WhoAmI(const std::string& runtime_dir);
// A warm OpenQp, with its descriptor received and closed again.
Contestant OpenQp(const std::string& runtime_dir);
// One byte to a server over SEQPACKET, one packet with a descriptor back: the limit.
Contestant RawFd(const std::string& socket);

// The servers of the first and the last; never return.
int ServeBareGrpc(const std::string& socket);
int ServeRawFd(const std::string& socket);

// Ends the program with a message.
[[noreturn]] void Die(const std::string& message);

}  // namespace qpbroker::bench

#endif  // QPBROKER_TESTS_BENCH_CONTESTANTS_H_
