// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/device_manager.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/testing/fake_ports.h"
#include "daemon/verbs/fake_verbs.h"

namespace qpbroker::runtime {
namespace {

using Names = std::vector<std::string>;

class DeviceManagerTest : public ::testing::Test {
 protected:
  ~DeviceManagerTest() override {
    manager_.reset();
    executor_.RunAll();
    EXPECT_EQ(kernel_.contexts(), 0u);
  }
  // Lets the executor and the loop do what is there.
  void Run() {
    executor_.RunAll();
    bool done = false;
    loop_.Post([this, &done] { loop_.Post([&done] { done = true; }); });
    while (!done) loop_.RunOnce();
    executor_.RunAll();
  }
  // For what a timer brings.
  void RunUntil(const std::function<bool()>& condition) {
    bool timed_out = false;
    loop_.After(absl::Seconds(20), [&timed_out] { timed_out = true; });
    while (!condition() && !timed_out) {
      loop_.RunOnce();
      executor_.RunAll();
    }
    EXPECT_FALSE(timed_out);
  }
  void Start(absl::Duration retry_interval = absl::Hours(1)) {
    manager_ = std::make_unique<DeviceManager>(loop_, verbs_, broker_, executor_, retry_interval);
    manager_->Scan();
    Run();
  }

  EventLoop loop_;
  verbs::FakeKernel kernel_;
  verbs::FakeVerbs verbs_{kernel_};
  core::FakeLeasePort leases_;
  core::FakeDomainFilePort files_;
  core::FakeDeliveryPort delivery_;
  core::FakeKeeperPort keeper_;
  core::FakeExecutor executor_;
  core::FakeEnvironment environment_;
  core::FakeJournal journal_;
  core::Broker broker_{
      {core::Generation(1), 0, {10, 10, 10, 10, 10}},
      {&leases_, &files_, &delivery_, &keeper_, &executor_, &environment_, &journal_}};
  std::unique_ptr<DeviceManager> manager_;
};

TEST_F(DeviceManagerTest, DevicesThatComeAndGoAreFollowed) {
  Start();
  EXPECT_EQ(broker_.DeviceNames(), Names{});
  kernel_.AddDevice({.name = "a"});
  kernel_.AddDevice({.name = "b"});
  manager_->Scan();
  Run();
  EXPECT_EQ(broker_.DeviceNames(), (Names{"a", "b"}));
  kernel_.RemoveDevice("a");
  manager_->Scan();
  Run();
  EXPECT_EQ(broker_.DeviceNames(), Names{"b"});
  EXPECT_EQ(kernel_.contexts(), 1u) << "the driver of a device that is gone can be unloaded";
  manager_->Scan();
  Run();
  EXPECT_EQ(kernel_.contexts(), 1u) << "a scan without change opens nothing again";
}

TEST_F(DeviceManagerTest, DeviceThatGoesWhileItIsOpenedIsNotKept) {
  kernel_.AddDevice({.name = "a"});
  manager_ = std::make_unique<DeviceManager>(loop_, verbs_, broker_, executor_, absl::Hours(1));
  manager_->Scan();
  executor_.RunAll();
  kernel_.RemoveDevice("a");
  Run();
  EXPECT_EQ(broker_.DeviceNames(), Names{});
}

TEST_F(DeviceManagerTest, FatalEventRemovesTheDevice) {
  kernel_.AddDevice({.name = "a"});
  Start();
  kernel_.RemoveDevice("a");  // Raises it; no scan.
  Run();
  EXPECT_EQ(broker_.DeviceNames(), Names{});
  EXPECT_EQ(kernel_.contexts(), 0u);
}

// The driver reset the device: it is there again before anybody looked for it.
TEST_F(DeviceManagerTest, DeviceThatIsReplacedBetweenTwoScansIsOpenedAnew) {
  kernel_.AddDevice({.name = "a"});
  Start(absl::Milliseconds(1));
  kernel_.RemoveDevice("a");
  kernel_.AddDevice({.name = "a", .node_guid = 2});
  manager_->Scan();
  RunUntil([this] { return broker_.DeviceNames().empty(); });
  RunUntil([this] { return broker_.DeviceNames() == Names{"a"}; });
  EXPECT_EQ(kernel_.contexts(), 1u);
}

TEST_F(DeviceManagerTest, DeviceThatCannotBeOpenedIsTriedAgainAtTheNextChange) {
  kernel_.AddDevice({.name = "a"});
  kernel_.FailNthCall(2, EACCES);  // The first lists the devices.
  Start();
  EXPECT_EQ(broker_.DeviceNames(), Names{});
  manager_->Scan();
  Run();
  EXPECT_EQ(broker_.DeviceNames(), Names{"a"});
}

TEST_F(DeviceManagerTest, DeviceThatCannotBeOpenedIsTriedAgainAfterAWhile) {
  kernel_.AddDevice({.name = "a"});
  kernel_.FailNthCall(2, EACCES);
  Start(absl::Milliseconds(1));
  RunUntil([this] { return broker_.DeviceNames() == Names{"a"}; });
}

TEST_F(DeviceManagerTest, ListThatCannotBeReadIsAskedForAgain) {
  kernel_.AddDevice({.name = "a"});
  kernel_.FailNthCall(1, ENOMEM);
  Start(absl::Milliseconds(1));
  RunUntil([this] { return broker_.DeviceNames() == Names{"a"}; });
}

}  // namespace
}  // namespace qpbroker::runtime
