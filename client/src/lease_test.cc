// SPDX-License-Identifier: Apache-2.0
#include "qpbroker/lease.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/src/lease_state.h"
#include "client/src/testing/fd_census.h"
#include "client/src/testing/grant_fds.h"
#include "common/event_record.h"
#include "gtest/gtest.h"

namespace qpbroker {
namespace {

using client::testing::FdCensus;
using client::testing::LeaseIsHeld;
using std::chrono::milliseconds;

class LeaseTest : public ::testing::Test {
 protected:
  // Without a connection: what a lease does by itself.
  Lease MakeLease() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    writer_.reset(ends[1]);
    return Lease(std::make_shared<client::LeaseState>(std::weak_ptr<client::Connection>(),
                                                      client::LeaseTarget::kQp, "leases/1@0",
                                                      UniqueFd(ends[0])));
  }

  void Write(const std::string& bytes) {
    EXPECT_EQ(write(writer_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  static std::string Bytes(const EventRecord& record) {
    return std::string(reinterpret_cast<const char*>(&record), sizeof(record));
  }

  UniqueFd writer_;
};

TEST_F(LeaseTest, HandlerHearsEventsInOrder) {
  Lease lease = MakeLease();
  std::vector<Event> heard;
  lease.OnEvent([&](const Event& event) { heard.push_back(event); });
  Write(Bytes({.kind = EventKind::kPortDown, .port = 2, .sequence = 1}));
  Write(Bytes({.kind = EventKind::kQpError, .qp_num = 0x800012, .detail = 7, .sequence = 2}));
  Result<int> handled = lease.ProcessEvents();
  ASSERT_TRUE(handled.ok());
  EXPECT_EQ(*handled, 2);
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].kind, Event::Kind::kPortDown);
  EXPECT_EQ(heard[0].port, 2u);
  EXPECT_EQ(heard[1].kind, Event::Kind::kQpError);
  EXPECT_EQ(heard[1].qp_num, 0x800012u);
  EXPECT_EQ(heard[1].detail, 7u);
  EXPECT_EQ(heard[1].sequence, 2u);
}

TEST_F(LeaseTest, EveryKindOfRecordIsAnEventOfThatName) {
  Lease lease = MakeLease();
  std::vector<std::string> names;
  lease.OnEvent([&](const Event& event) { names.emplace_back(EventKindName(event.kind)); });
  for (uint32_t kind = 1; kind <= 8; ++kind) Write(Bytes({.kind = static_cast<EventKind>(kind)}));
  ASSERT_TRUE(lease.ProcessEvents().ok());
  EXPECT_EQ(names,
            (std::vector<std::string>{"OVERFLOW", "QP_ERROR", "PORT_ACTIVE", "PORT_DOWN",
                                      "DEVICE_GONE", "REVOKED", "QP_DESTROYED", "QP_EVENT"}));
}

TEST_F(LeaseTest, UnknownKindsAreSkippedAndLongerRecordsAreCut) {
  Lease lease = MakeLease();
  Write(Bytes({.kind = static_cast<EventKind>(99)}));
  Write(Bytes({.size = 40, .kind = EventKind::kPortActive, .port = 3}) + std::string(8, 'x'));
  Write(Bytes({.kind = EventKind::kPortDown, .port = 4}));
  Result<std::optional<Event>> first = lease.WaitEvent(milliseconds(0));
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_EQ((*first)->port, 3u);
  Result<std::optional<Event>> second = lease.WaitEvent(milliseconds(0));
  ASSERT_TRUE(second.ok() && second->has_value());
  EXPECT_EQ((*second)->port, 4u);
}

TEST_F(LeaseTest, RecordThatComesInPiecesIsPutTogether) {
  Lease lease = MakeLease();
  std::string bytes = Bytes({.kind = EventKind::kPortDown, .port = 5});
  for (char byte : bytes) {
    Result<std::optional<Event>> nothing = lease.WaitEvent(milliseconds(0));
    ASSERT_TRUE(nothing.ok());
    EXPECT_FALSE(nothing->has_value());
    Write(std::string(1, byte));
  }
  EXPECT_EQ((*lease.WaitEvent(milliseconds(0)))->port, 5u);
}

TEST_F(LeaseTest, GarbageIsAViolationAndTheLeaseGoesOn) {
  for (uint32_t size : {0u, 31u, 4097u, 0xffffffffu}) {
    Lease lease = MakeLease();
    Write(Bytes({.size = size}));
    Result<std::optional<Event>> garbage = lease.WaitEvent(milliseconds(0));
    ASSERT_FALSE(garbage.ok());
    EXPECT_EQ(garbage.error().reason, "PROTOCOL_VIOLATION");
    EXPECT_TRUE(LeaseIsHeld(writer_));
    Write(Bytes({.kind = EventKind::kPortDown, .port = 6}));
    EXPECT_EQ((*lease.WaitEvent(milliseconds(0)))->port, 6u);
  }
}

TEST_F(LeaseTest, EventsBeforeGarbageAreHandled) {
  Lease lease = MakeLease();
  int heard = 0;
  lease.OnEvent([&](const Event&) { ++heard; });
  Write(Bytes({.kind = EventKind::kPortDown}) + Bytes({.size = 1}));
  EXPECT_FALSE(lease.ProcessEvents().ok());
  EXPECT_EQ(heard, 1);
}

TEST_F(LeaseTest, HangUpIsGoneOnceForTheHandlerAndEverForWhoWaits) {
  Lease lease = MakeLease();
  std::vector<Event::Kind> heard;
  lease.OnEvent([&](const Event& event) { heard.push_back(event.kind); });
  Write(Bytes({.kind = EventKind::kRevoked}));
  writer_.reset();
  EXPECT_EQ(*lease.ProcessEvents(), 2);
  EXPECT_EQ(*lease.ProcessEvents(), 0);
  EXPECT_EQ(heard, (std::vector{Event::Kind::kRevoked, Event::Kind::kGone}));
  EXPECT_EQ((*lease.WaitEvent(milliseconds(-1)))->kind, Event::Kind::kGone);
  EXPECT_EQ((*lease.WaitEvent(milliseconds(-1)))->kind, Event::Kind::kGone);
}

TEST_F(LeaseTest, WithoutAHandlerNothingIsLost) {
  Lease lease = MakeLease();
  Write(Bytes({.kind = EventKind::kPortDown}));
  EXPECT_EQ(*lease.ProcessEvents(), 0);
  EXPECT_TRUE(lease.WaitEvent(milliseconds(0))->has_value());
}

TEST_F(LeaseTest, FloodOfEventsReturnsToTheApplication) {
  Lease lease = MakeLease();
  int heard = 0;
  lease.OnEvent([&](const Event&) {
    ++heard;
    Write(Bytes({.kind = EventKind::kPortDown}));  // One more for each.
  });
  Write(Bytes({.kind = EventKind::kPortDown}));
  ASSERT_TRUE(lease.ProcessEvents().ok());
  EXPECT_GE(heard, 1);
}

TEST_F(LeaseTest, WaitEndsWhenAnEventComes) {
  Lease lease = MakeLease();
  std::thread writer([&] { Write(Bytes({.kind = EventKind::kPortActive})); });
  EXPECT_EQ((*lease.WaitEvent(milliseconds(-1)))->kind, Event::Kind::kPortActive);
  writer.join();
}

TEST_F(LeaseTest, DescriptorIsReadableWhileEventsWait) {
  Lease lease = MakeLease();
  pollfd entry{lease.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 0), 0);
  Write(Bytes({.kind = EventKind::kPortDown}));
  EXPECT_EQ(poll(&entry, 1, 0), 1);
}

TEST_F(LeaseTest, HandlerMayDestroyItsLease) {
  auto lease = std::make_unique<Lease>(MakeLease());
  int heard = 0;
  lease->OnEvent([&](const Event&) {
    ++heard;
    lease.reset();
  });
  Write(Bytes({.kind = EventKind::kPortDown}));
  Write(Bytes({.kind = EventKind::kPortDown}));
  EXPECT_EQ(*lease->ProcessEvents(), 1);
  EXPECT_EQ(heard, 1);
  EXPECT_FALSE(LeaseIsHeld(writer_));
}

TEST_F(LeaseTest, HandlerMayReplaceItself) {
  Lease lease = MakeLease();
  std::string heard;
  lease.OnEvent([&](const Event&) {
    heard += "a";
    lease.OnEvent([&](const Event&) { heard += "b"; });
  });
  Write(Bytes({.kind = EventKind::kPortDown}) + Bytes({.kind = EventKind::kPortDown}));
  EXPECT_EQ(*lease.ProcessEvents(), 2);
  EXPECT_EQ(heard, "ab");
}

TEST_F(LeaseTest, DestroyingOrReplacingReleases) {
  auto before = FdCensus();
  {
    Lease first = MakeLease();
    UniqueFd first_writer = std::move(writer_);
    Lease second = MakeLease();
    first = std::move(second);
    EXPECT_FALSE(LeaseIsHeld(first_writer));
    EXPECT_TRUE(LeaseIsHeld(writer_));
  }
  EXPECT_FALSE(LeaseIsHeld(writer_));
  writer_.reset();
  EXPECT_EQ(FdCensus(), before);
}

TEST_F(LeaseTest, CloseWithoutAClientReleasesAndSaysThatNobodyAnswered) {
  Lease lease = MakeLease();
  Result<uint32_t> closed = lease.Close();
  ASSERT_FALSE(closed.ok());
  EXPECT_EQ(closed.error().reason, "DAEMON_UNREACHABLE");
  EXPECT_FALSE(LeaseIsHeld(writer_));
  EXPECT_EQ(lease.fd(), -1);
  EXPECT_EQ(lease.Close().error().reason, "LEASE_NOT_FOUND");
  EXPECT_EQ(lease.ProcessEvents().error().reason, "LEASE_NOT_FOUND");
  EXPECT_EQ(lease.WaitEvent(milliseconds(0)).error().reason, "LEASE_NOT_FOUND");
}

}  // namespace
}  // namespace qpbroker
