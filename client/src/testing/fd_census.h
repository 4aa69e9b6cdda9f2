// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_TESTING_FD_CENSUS_H_
#define QPBROKER_CLIENT_SRC_TESTING_FD_CENSUS_H_

#include <functional>
#include <map>
#include <string>

#include "gtest/gtest.h"

namespace qpbroker::client::testing {

// Every open descriptor of this process, with what it refers to.
std::map<int, std::string> FdCensus();

// Looks again until `condition` holds; false if it does not within 20 s. For what another thread or
// the kernel does soon and nobody announces.
bool Eventually(const std::function<bool()>& condition);

// Succeeds as soon as nothing is open that was not in the census `before`; otherwise tells what is.
// For tests with gRPC, which closes what earlier tests left to it when it likes; others compare
// censuses.
::testing::AssertionResult NothingIsOpenBeyond(const std::map<int, std::string>& before);

// Lowers RLIMIT_NOFILE so that exactly `free` further descriptors can be opened, and puts it back.
class FileLimit {
 public:
  explicit FileLimit(int free);
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit();

 private:
  unsigned long previous_;
};

}  // namespace qpbroker::client::testing

#endif  // QPBROKER_CLIENT_SRC_TESTING_FD_CENSUS_H_
