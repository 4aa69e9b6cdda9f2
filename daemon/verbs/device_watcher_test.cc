// SPDX-License-Identifier: Apache-2.0
#include "daemon/verbs/device_watcher.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace qpbroker::verbs {
namespace {

TEST(DeviceWatcherTest, IsQuietAndDoesNotBlockWhileNothingChanges) {
  auto watcher = DeviceWatcher::Create();
  if (!watcher.ok()) GTEST_SKIP() << "no kernel events here: " << watcher.status();
  EXPECT_GE((*watcher)->fd(), 0);
  EXPECT_FALSE((*watcher)->Drain());
  pollfd poll_fd = {(*watcher)->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&poll_fd, 1, 0), 0);
}

}  // namespace
}  // namespace qpbroker::verbs
