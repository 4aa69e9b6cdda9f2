// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/lease_watcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/event_record.h"

namespace qpbroker::session {
namespace {

using core::LeaseId;
using core::NewLease;

class LeaseWatcherTest : public ::testing::Test {
 protected:
  // Lets the loop handle what is there, and then stop.
  void RunLoop() {
    bool done = false;
    loop_->Post([this, &done] { loop_->Post([&done] { done = true; }); });
    while (!done) loop_->RunOnce();
  }

  std::unique_ptr<EventLoop> loop_ = std::make_unique<EventLoop>();
  std::map<LeaseId, NewLease> leases_;
  std::vector<LeaseId> gone_;
  // As the broker does: a lease whose holder is gone is ended, another is left alone.
  LeaseWatcher watcher_{*loop_, [this](LeaseId id) {
                          gone_.push_back(id);
                          auto found = leases_.find(id);
                          if (found != leases_.end() && !found->second.end->HasHolder()) {
                            leases_.erase(found);
                          }
                        }};

  NewLease& Create(uint64_t id) {
    absl::StatusOr<NewLease> lease = watcher_.CreateLease(LeaseId(id));
    EXPECT_TRUE(lease.ok()) << lease.status();
    return leases_[LeaseId(id)] = *std::move(lease);
  }
  std::vector<EventRecord> Read(const UniqueFd& fd) {
    std::vector<EventRecord> records;
    EventRecord record;
    while (read(fd.get(), &record, sizeof(record)) == sizeof(record)) records.push_back(record);
    return records;
  }
};

TEST_F(LeaseWatcherTest, TellsOnceTheLastCopyIsClosed) {
  NewLease& lease = Create(1);
  UniqueFd copy(dup(lease.holder_end.get()));
  lease.holder_end.reset();
  RunLoop();
  EXPECT_TRUE(gone_.empty());
  EXPECT_TRUE(lease.end->HasHolder());
  copy.reset();
  EXPECT_FALSE(lease.end->HasHolder());
  RunLoop();
  EXPECT_EQ(gone_, std::vector<LeaseId>{LeaseId(1)});
  RunLoop();
  EXPECT_EQ(gone_.size(), 1u) << "an ended lease is not reported again";
}

TEST_F(LeaseWatcherTest, ReopenedHolderEndIsWatchedAsTheFirstWas) {
  NewLease& lease = Create(1);
  absl::StatusOr<UniqueFd> again = lease.end->ReopenHolderEnd();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(fcntl(again->get(), F_GETFD) & FD_CLOEXEC, 0);
  lease.holder_end.reset();
  RunLoop();
  EXPECT_TRUE(gone_.empty());
  again->reset();
  RunLoop();
  EXPECT_EQ(gone_.size(), 1u);
}

TEST_F(LeaseWatcherTest, HolderReadsEventsInOrder) {
  NewLease& lease = Create(1);
  EventRecord record;
  record.kind = EventKind::kQpError;
  record.qp_num = 0x800012;
  lease.end->Send(record);
  lease.end->Send(record);
  std::vector<EventRecord> got = Read(lease.holder_end);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].qp_num, 0x800012u);
  EXPECT_EQ(got[0].sequence, 1u);
  EXPECT_EQ(got[1].sequence, 2u);
}

// A holder may make its pipe as small as a page, and never read it.
TEST_F(LeaseWatcherTest, WhatDoesNotFitIsCountedInOneRecord) {
  NewLease& lease = Create(1);
  ASSERT_GT(fcntl(lease.holder_end.get(), F_SETPIPE_SZ, 4096), 0);
  EventRecord record;
  record.kind = EventKind::kPortDown;
  constexpr int kSent = 1000;
  for (int i = 0; i < kSent; ++i) lease.end->Send(record);
  std::vector<EventRecord> got = Read(lease.holder_end);
  ASSERT_EQ(got.size(), 4096 / sizeof(EventRecord));
  lease.end->Send(record);
  std::vector<EventRecord> rest = Read(lease.holder_end);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].kind, EventKind::kOverflow);
  EXPECT_EQ(rest[0].detail, kSent - got.size());
  EXPECT_EQ(rest[1].sequence, kSent + 1u);
}

TEST_F(LeaseWatcherTest, SendingToNobodyIsNothing) {
  signal(SIGPIPE, SIG_IGN);
  NewLease& lease = Create(1);
  lease.holder_end.reset();
  lease.end->Send(EventRecord());
  RunLoop();
  EXPECT_EQ(gone_.size(), 1u);
}

TEST_F(LeaseWatcherTest, ManyAtOnce) {
  constexpr uint64_t kLeases = 1000;
  for (uint64_t i = 1; i <= kLeases; ++i) Create(i);
  for (auto& [id, lease] : leases_) lease.holder_end.reset();
  while (!leases_.empty()) RunLoop();
  EXPECT_EQ(gone_.size(), kLeases);
}

}  // namespace
}  // namespace qpbroker::session
