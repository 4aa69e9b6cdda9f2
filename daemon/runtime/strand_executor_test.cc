// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/strand_executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"

namespace qpbroker::runtime {
namespace {

TEST(StrandExecutorTest, TasksOfAStrandRunOneAfterAnotherInOrder) {
  std::vector<int> order;
  std::atomic<int> running{0};
  {
    StrandExecutor executor(4);
    for (int i = 0; i < 1000; ++i) {
      executor.Post("dev", 7, [&, i] {
        EXPECT_EQ(++running, 1);
        order.push_back(i);  // Unguarded: tsan would tell if two ran at once.
        --running;
      });
    }
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

TEST(StrandExecutorTest, StrandsRunAtTheSameTime) {
  StrandExecutor executor(2);
  absl::Barrier* both = new absl::Barrier(2);
  for (uint64_t strand : {1, 2}) {
    executor.Post("dev", strand, [both] {
      if (both->Block()) delete both;
    });
  }
  EXPECT_TRUE(executor.AwaitIdle(absl::Seconds(20)));
}

TEST(StrandExecutorTest, StuckStrandsOfOneDeviceDoNotStopAnother) {
  absl::Notification release, other;  // The executor's last tasks still use them.
  StrandExecutor executor(2);
  for (uint64_t strand : {1, 2, 3}) {
    executor.Post("stuck", strand, [&] { release.WaitForNotification(); });
  }
  executor.Post("fine", 1, [&] { other.Notify(); });
  EXPECT_TRUE(other.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_FALSE(executor.AwaitIdle(absl::ZeroDuration()));
  release.Notify();
  EXPECT_TRUE(executor.AwaitIdle(absl::Seconds(20)));
}

TEST(StrandExecutorTest, StuckStrandTakesOnlyOneThread) {
  absl::Notification release, other;  // The executor's last tasks still use them.
  StrandExecutor executor(2);
  for (int i = 0; i < 5; ++i) executor.Post("dev", 1, [&] { release.WaitForNotification(); });
  executor.Post("dev", 2, [&] { other.Notify(); });
  EXPECT_TRUE(other.WaitForNotificationWithTimeout(absl::Seconds(20)));
  release.Notify();
}

TEST(StrandExecutorTest, TasksMayPostTasks) {
  std::atomic<int> count{0};
  {
    StrandExecutor executor(1);
    executor.Post("dev", 1, [&] {
      ++count;
      executor.Post("dev", 1, [&] { ++count; });
      executor.Post("dev", 2, [&] { ++count; });
    });
    EXPECT_TRUE(executor.AwaitIdle(absl::Seconds(20)));
  }
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace qpbroker::runtime
