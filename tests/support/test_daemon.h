// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_TESTS_SUPPORT_TEST_DAEMON_H_
#define QPBROKER_TESTS_SUPPORT_TEST_DAEMON_H_

// The whole daemon in a thread of the test's process, on real sockets in a directory of its own and
// on a fake kernel: so that a test can count what both sides have open and make system calls fail
// on either.
//
//   TestDaemon daemon;
//   Client client = *Client::Connect({.runtime_dir = daemon.runtime_dir()});

#include <functional>
#include <string>
#include <thread>

#include "daemon/runtime/config.h"
#include "daemon/verbs/fake_verbs.h"

namespace qpbroker::testing {

class TestDaemon {
 public:
  // Starts it with one device, fake0, and returns when it serves. `change` may change the
  // configuration.
  explicit TestDaemon(const std::function<void(runtime::Config&)>& change = {});
  // Stops it by SIGTERM and expects that it gave everything back.
  ~TestDaemon();
  TestDaemon(const TestDaemon&) = delete;
  TestDaemon& operator=(const TestDaemon&) = delete;

  const std::string& runtime_dir() const { return runtime_dir_; }
  verbs::FakeKernel& kernel() { return kernel_; }
  // As the destructor does, but now.
  void Stop();

 private:
  std::string runtime_dir_;
  verbs::FakeKernel kernel_;
  verbs::FakeVerbs verbs_{kernel_};
  std::thread thread_;
};

}  // namespace qpbroker::testing

#endif  // QPBROKER_TESTS_SUPPORT_TEST_DAEMON_H_
