// SPDX-License-Identifier: Apache-2.0
//
// The daemon's side of the keeper against the keeper itself, which is stopped, killed and short of
// room.
#include "daemon/runtime/keeper_client.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "client/src/testing/fd_census.h"
#include "common/event_loop.h"
#include "common/unique_fd.h"
#include "tests/support/keeper_process.h"

namespace qpbroker::runtime {
namespace {

using client::testing::FdCensus;
using core::KeptEntry;
using core::KeptObject;
using qpbroker::testing::KeeperProcess;

class KeeperClientTest : public ::testing::Test {
 protected:
  ~KeeperClientTest() override {
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }

  std::unique_ptr<KeeperClient> NewClient() {
    return std::make_unique<KeeperClient>(path_, absl::Milliseconds(20));
  }

  static keeper::v1::Record Lease(uint64_t id) {
    keeper::v1::Record record;
    record.mutable_lease()->set_id(id);
    return record;
  }
  // An entry with a descriptor.
  std::shared_ptr<KeptEntry> Keep(KeeperClient& client, uint64_t id) {
    std::shared_ptr<KeptEntry> entry = client.NewEntry();
    auto file = std::make_shared<UniqueFd>(open("/dev/null", O_RDONLY | O_CLOEXEC));
    entry->Keep(Lease(id), {{file, file->get()}});
    return entry;
  }

  // Runs the loop until the keeper has everything, or has not.
  void Await(EventLoop& loop, const KeeperClient& client, bool up_to_date = true) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (client.IsUpToDate() != up_to_date && absl::Now() < deadline) {
      loop.After(absl::Milliseconds(5), [] {});
      loop.RunOnce();
    }
    EXPECT_EQ(client.IsUpToDate(), up_to_date);
  }

  // The ids of the leases that the next daemon would find.
  std::vector<uint64_t> Left() {
    std::unique_ptr<KeeperClient> next = NewClient();
    std::vector<uint64_t> ids;
    absl::StatusOr<std::vector<KeptObject>> kept = next->TakeAll(absl::Seconds(20));
    EXPECT_TRUE(kept.ok()) << kept.status();
    next->Leave();
    for (const KeptObject& object : *kept) {
      EXPECT_EQ(object.fds.size(), 1u);
      ids.push_back(object.record.lease().id());
    }
    return ids;
  }

  static std::string NewDirectory() {
    char name[] = "/tmp/keeper_client_test.XXXXXX";
    return mkdtemp(name);
  }

  using Ids = std::vector<uint64_t>;
  const std::string directory_ = NewDirectory();
  const std::string path_ = directory_ + "/keeper.sock";
};

TEST_F(KeeperClientTest, WhatWasKeptIsTheNextDaemons) {
  KeeperProcess keeper(path_);
  const auto before = FdCensus();
  {
    EventLoop loop;
    std::unique_ptr<KeeperClient> client = NewClient();
    EXPECT_EQ(client->TakeAll(absl::Seconds(20))->size(), 0u);
    client->Start(loop);
    EXPECT_TRUE(client->IsUpToDate());
    auto first = Keep(*client, 1);
    auto second = Keep(*client, 2);
    auto third = Keep(*client, 3);
    second.reset();
    client->Leave();
    third.reset();  // Not said any more.
  }
  EXPECT_EQ(Left(), (Ids{1, 3}));
  EXPECT_EQ(FdCensus(), before);
}

TEST_F(KeeperClientTest, EntryThatWasTakenOverIsDroppedByItsNewOwner) {
  KeeperProcess keeper(path_);
  {
    std::unique_ptr<KeeperClient> client = NewClient();
    ASSERT_TRUE(client->TakeAll(absl::Seconds(20)).ok());
    auto first = Keep(*client, 1);
    auto second = Keep(*client, 2);
    client->Leave();
  }
  {
    std::unique_ptr<KeeperClient> client = NewClient();
    absl::StatusOr<std::vector<KeptObject>> kept = client->TakeAll(absl::Seconds(20));
    ASSERT_EQ(kept->size(), 2u);
    kept->erase(kept->begin());
    // Its ids are not given again.
    auto third = Keep(*client, 3);
    client->Leave();
  }
  EXPECT_EQ(Left(), (Ids{2, 3}));
}

TEST_F(KeeperClientTest, ForgetLeavesNothing) {
  KeeperProcess keeper(path_);
  {
    std::unique_ptr<KeeperClient> client = NewClient();
    ASSERT_TRUE(client->TakeAll(absl::Seconds(20)).ok());
    auto first = Keep(*client, 1);
    client->Forget();
  }
  EXPECT_EQ(Left(), Ids{});
}

TEST_F(KeeperClientTest, KeeperThatComesLaterOrAnewGetsEverything) {
  EventLoop loop;
  std::unique_ptr<KeeperClient> client = NewClient();
  EXPECT_EQ(client->TakeAll(absl::Seconds(20))->size(), 0u);
  client->Start(loop);
  auto first = Keep(*client, 1);
  EXPECT_FALSE(client->IsUpToDate());
  {
    KeeperProcess keeper(path_);
    Await(loop, *client);
  }
  Await(loop, *client, false);
  auto second = Keep(*client, 2);
  first.reset();
  KeeperProcess keeper(path_);
  Await(loop, *client);
  client->Leave();
  second.reset();
  client.reset();
  EXPECT_EQ(Left(), Ids{2});
}

TEST_F(KeeperClientTest, KeeperThatDoesNotReadHoldsNobodyUp) {
  KeeperProcess keeper(path_);
  EventLoop loop;
  std::unique_ptr<KeeperClient> client = NewClient();
  ASSERT_TRUE(client->TakeAll(absl::Seconds(20)).ok());
  client->Start(loop);
  keeper.Signal(SIGSTOP);
  std::vector<std::shared_ptr<KeptEntry>> entries;
  Ids ids;
  while (client->IsUpToDate()) {
    ASSERT_LT(entries.size(), 100'000u) << "its queue is never full";
    ids.push_back(entries.size() + 1);
    entries.push_back(Keep(*client, ids.back()));
  }
  // Behind by one whose place comes later, one that goes meanwhile, and one that is new.
  entries.erase(entries.begin());
  ids.erase(ids.begin());
  ids.push_back(1'000'000);
  entries.push_back(Keep(*client, ids.back()));
  keeper.Signal(SIGCONT);
  Await(loop, *client);
  client->Leave();
  entries.clear();
  client.reset();
  EXPECT_EQ(Left(), ids);
}

TEST_F(KeeperClientTest, WhatWasRefusedIsSentAgain) {
  KeeperProcess keeper(path_, 20);
  EventLoop loop;
  std::unique_ptr<KeeperClient> client = NewClient();
  ASSERT_TRUE(client->TakeAll(absl::Seconds(20)).ok());
  client->Start(loop);
  std::vector<std::shared_ptr<KeptEntry>> entries;
  for (uint64_t id = 1; id <= 25; ++id) entries.push_back(Keep(*client, id));
  Await(loop, *client, false);
  // Those for which there was no room are the last ones.
  entries.erase(entries.begin(), entries.end() - 3);
  Await(loop, *client);
  auto last = Keep(*client, 26);
  client->Leave();
  entries.clear();
  last.reset();
  client.reset();
  EXPECT_EQ(Left(), (Ids{23, 24, 25, 26}));
}

TEST_F(KeeperClientTest, KeeperThatDoesNotAnswerIsAnError) {
  KeeperProcess keeper(path_);
  keeper.Signal(SIGSTOP);
  std::unique_ptr<KeeperClient> client = NewClient();
  absl::StatusOr<std::vector<KeptObject>> kept = client->TakeAll(absl::Milliseconds(50));
  EXPECT_FALSE(kept.ok());
  EXPECT_THAT(std::string(kept.status().message()), ::testing::HasSubstr("does not answer"));
}

TEST_F(KeeperClientTest, WhatAKeeperHadThatWasDoneWithoutIsCleared) {
  KeeperProcess keeper(path_);
  {
    std::unique_ptr<KeeperClient> client = NewClient();
    ASSERT_TRUE(client->TakeAll(absl::Seconds(20)).ok());
    auto first = Keep(*client, 1);
    auto second = Keep(*client, 2);
    client->Leave();
  }
  keeper.Signal(SIGSTOP);
  EventLoop loop;
  std::unique_ptr<KeeperClient> client = NewClient();
  EXPECT_FALSE(client->TakeAll(absl::Milliseconds(50)).ok());
  auto entry = Keep(*client, 3);
  client->Start(loop);
  keeper.Signal(SIGCONT);
  Await(loop, *client);
  client->Leave();
  entry.reset();
  client.reset();
  EXPECT_EQ(Left(), Ids{3});
}

}  // namespace
}  // namespace qpbroker::runtime
