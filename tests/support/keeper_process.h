// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_TESTS_SUPPORT_KEEPER_PROCESS_H_
#define QPBROKER_TESTS_SUPPORT_KEEPER_PROCESS_H_

// The keeper itself, as a process of its own. A test that uses it has
// //daemon/keeper:qpbroker-keeper in its data.

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "common/unique_fd.h"

namespace qpbroker::testing {

inline constexpr char kKeeperProgram[] = "daemon/keeper/qpbroker-keeper";

// A connection to the keeper there; none if nobody listens.
UniqueFd ConnectToKeeper(const std::string& socket_path);

class KeeperProcess {
 public:
  // Starts it and returns when it listens. `file_limit`: its RLIMIT_NOFILE; 0: the test's own.
  explicit KeeperProcess(const std::string& socket_path, unsigned file_limit = 0);
  // Kills it.
  ~KeeperProcess();
  KeeperProcess(const KeeperProcess&) = delete;
  KeeperProcess& operator=(const KeeperProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number);
  bool IsRunning() const;
  // How many descriptors it has open.
  size_t OpenFiles() const;

 private:
  pid_t pid_;
};

}  // namespace qpbroker::testing

#endif  // QPBROKER_TESTS_SUPPORT_KEEPER_PROCESS_H_
