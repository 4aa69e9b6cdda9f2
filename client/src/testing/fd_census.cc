// SPDX-License-Identifier: Apache-2.0
#include "client/src/testing/fd_census.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>

namespace qpbroker::client::testing {

std::map<int, std::string> FdCensus() {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir("/proc/self/fd"), closedir);
  std::map<int, std::string> census;
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name[0] == '.') continue;
    int fd = std::atoi(entry->d_name);
    if (fd == dirfd(dir.get())) continue;
    std::array<char, 256> target{};
    std::string path = std::string("/proc/self/fd/") + entry->d_name;
    ssize_t length = readlink(path.c_str(), target.data(), target.size());
    if (length > 0) census[fd] = std::string(target.data(), static_cast<size_t>(length));
  }
  return census;
}

bool Eventually(const std::function<bool()>& condition) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

::testing::AssertionResult NothingIsOpenBeyond(const std::map<int, std::string>& before) {
  // By what is open, not by number: a descriptor may be closed and opened again.
  std::multiset<std::string> expected;
  for (const auto& [fd, target] : before) expected.insert(target);
  std::map<int, std::string> beyond;
  bool nothing = Eventually([&] {
    beyond.clear();
    std::multiset<std::string> left = expected;
    for (const auto& [fd, target] : FdCensus()) {
      auto found = left.find(target);
      if (found == left.end()) {
        beyond[fd] = target;
      } else {
        left.erase(found);
      }
    }
    return beyond.empty();
  });
  if (nothing) return ::testing::AssertionSuccess();
  ::testing::AssertionResult failure = ::testing::AssertionFailure();
  for (const auto& [fd, target] : beyond) failure << " " << fd << ": " << target;
  return failure;
}

FileLimit::FileLimit(int free) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  previous_ = limit.rlim_cur;
  // A descriptor is always the lowest free number, and the limit is one on numbers: count the gaps.
  std::map<int, std::string> census = FdCensus();
  int next = 0;
  while (census.count(next) != 0 || free > 0) {
    if (census.count(next) == 0) --free;
    ++next;
  }
  limit.rlim_cur = static_cast<rlim_t>(next);
  setrlimit(RLIMIT_NOFILE, &limit);
}

FileLimit::~FileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = previous_;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace qpbroker::client::testing
