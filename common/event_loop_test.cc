// SPDX-License-Identifier: Apache-2.0
#include "common/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace qpbroker {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }
  UniqueFd reader, writer;
};

TEST(EventLoopTest, RunsPostedTasksFromOtherThreads) {
  EventLoop loop;
  std::atomic<int> count{0};
  std::thread poster([&] {
    for (int i = 0; i < 1000; ++i) loop.Post([&] { ++count; });
    loop.Stop();
  });
  loop.Run();
  poster.join();
  EXPECT_EQ(count, 1000);
}

TEST(EventLoopTest, StopBeforeRunReturnsAtOnce) {
  EventLoop loop;
  loop.Stop();
  loop.Run();
}

TEST(EventLoopTest, TimersRunInTheOrderOfTheirTimes) {
  EventLoop loop;
  std::string order;
  loop.After(absl::Milliseconds(20), [&] {
    order += "b";
    loop.Stop();
  });
  loop.After(absl::Milliseconds(1), [&] { order += "a"; });
  loop.Run();
  EXPECT_EQ(order, "ab");
}

// Two descriptors are ready in one batch, and the first one's handler ends the other's watch: its
// event was fetched already and must not be delivered.
TEST(EventLoopTest, EndedWatchGetsNoMoreEvents) {
  EventLoop loop;
  Pipe first, second;
  int calls = 0;
  auto handler = [&](uint32_t) {
    ++calls;
    loop.Unwatch(first.reader.get());
    loop.Unwatch(second.reader.get());
    loop.Stop();
  };
  ASSERT_TRUE(loop.Watch(first.reader.get(), EPOLLIN, handler).ok());
  ASSERT_TRUE(loop.Watch(second.reader.get(), EPOLLIN, handler).ok());
  ASSERT_EQ(write(first.writer.get(), "x", 1), 1);
  ASSERT_EQ(write(second.writer.get(), "x", 1), 1);
  loop.Run();
  EXPECT_EQ(calls, 1);
}

TEST(EventLoopTest, WatchOfABadDescriptorIsAnError) {
  EventLoop loop;
  EXPECT_FALSE(loop.Watch(-1, EPOLLIN, [](uint32_t) {}).ok());
}

}  // namespace
}  // namespace qpbroker
