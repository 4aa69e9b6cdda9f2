// SPDX-License-Identifier: Apache-2.0
//
// The keeper as a process, spoken to as the daemon does and as it never should.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/src/testing/fd_census.h"
#include "common/seqpacket_channel.h"
#include "common/unique_fd.h"
#include "daemon/keeper/protocol.h"
#include "tests/support/keeper_process.h"

namespace qpbroker::keeper {
namespace {

using client::testing::Eventually;
using qpbroker::testing::KeeperProcess;

struct Kept {
  uint64_t id;
  std::string record;
  std::vector<UniqueFd> fds;
};

class KeeperTest : public ::testing::Test {
 protected:
  ~KeeperTest() override {
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }

  UniqueFd Connect() {
    UniqueFd socket = qpbroker::testing::ConnectToKeeper(path_);
    EXPECT_TRUE(socket);
    const timeval patience{20, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return socket;
  }

  static int Send(int socket, Op op, uint64_t id, const std::string& record = "",
                  const std::vector<int>& fds = {}) {
    const Header header{op, static_cast<uint32_t>(record.size()), id};
    std::string packet(reinterpret_cast<const char*>(&header), sizeof(header));
    return SendPacket(socket, packet + record, fds);
  }

  static Header Receive(int socket, ReceivedPacket& packet) {
    Header header{};
    EXPECT_EQ(ReceivePacket(socket, packet), 0);
    EXPECT_GE(packet.bytes.size(), sizeof(header));
    std::memcpy(&header, packet.bytes.data(), std::min(packet.bytes.size(), sizeof(header)));
    return header;
  }

  // Everything that the keeper has, without leaving it.
  static std::vector<Kept> Take(int socket) {
    EXPECT_EQ(Send(socket, Op::kTake, 0), 0);
    std::vector<Kept> all;
    for (;;) {
      ReceivedPacket packet;
      const Header header = Receive(socket, packet);
      if (header.op != Op::kEntry) {
        EXPECT_EQ(header.op, Op::kEnd);
        EXPECT_EQ(header.id, all.size());
        return all;
      }
      EXPECT_EQ(packet.bytes.size(), sizeof(header) + header.size);
      all.push_back({header.id, packet.bytes.substr(sizeof(header)), std::move(packet.fds)});
    }
  }

  // A pipe whose write end tells, by its text, that it is the one.
  struct Pipe {
    UniqueFd read;
    UniqueFd write;
  };
  static Pipe NewPipe() {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
  }
  static bool AreSame(const Pipe& pipe, int write_end) {
    char byte = 0;
    return write(write_end, "x", 1) == 1 && read(pipe.read.get(), &byte, 1) == 1 && byte == 'x';
  }
  // Nobody has the write end any more.
  static bool IsClosed(const Pipe& pipe) {
    char byte;
    return read(pipe.read.get(), &byte, 1) == 0;
  }

  static std::string NewDirectory() {
    char name[] = "/tmp/keeper_test.XXXXXX";
    return mkdtemp(name);
  }

  const std::string directory_ = NewDirectory();
  const std::string path_ = directory_ + "/keeper.sock";
};

TEST_F(KeeperTest, GivesBackWhatItGotAndInOrder) {
  KeeperProcess keeper(path_);
  Pipe a = NewPipe();
  Pipe b = NewPipe();
  {
    UniqueFd daemon = Connect();
    ASSERT_EQ(Send(daemon.get(), Op::kKeep, 7, "seven", {a.write.get(), b.write.get()}), 0);
    ASSERT_EQ(Send(daemon.get(), Op::kKeep, 3, "three"), 0);
    ASSERT_EQ(Send(daemon.get(), Op::kKeep, uint64_t{1} << 40, ""), 0);
  }  // Dead; what it sent counts.
  a.write.reset();
  b.write.reset();
  UniqueFd successor = Connect();
  for (int round = 0; round < 2; ++round) {
    std::vector<Kept> kept = Take(successor.get());
    ASSERT_EQ(kept.size(), 3u);
    EXPECT_EQ(kept[0].id, 3u);
    EXPECT_EQ(kept[0].record, "three");
    EXPECT_TRUE(kept[0].fds.empty());
    EXPECT_EQ(kept[1].id, 7u);
    EXPECT_EQ(kept[1].record, "seven");
    ASSERT_EQ(kept[1].fds.size(), 2u);
    EXPECT_TRUE(AreSame(a, kept[1].fds[0].get()));
    EXPECT_TRUE(AreSame(b, kept[1].fds[1].get()));
    EXPECT_EQ(kept[2].id, uint64_t{1} << 40);
    EXPECT_EQ(kept[2].record, "");
  }
}

TEST_F(KeeperTest, NewRecordReplacesTheOldAndDescriptorsOnlyIfItHasSome) {
  KeeperProcess keeper(path_);
  UniqueFd daemon = Connect();
  Pipe a = NewPipe();
  Pipe b = NewPipe();
  ASSERT_EQ(Send(daemon.get(), Op::kKeep, 1, "old", {a.write.get()}), 0);
  ASSERT_EQ(Send(daemon.get(), Op::kKeep, 1, "newer"), 0);
  a.write.reset();
  std::vector<Kept> kept = Take(daemon.get());
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].record, "newer");
  ASSERT_EQ(kept[0].fds.size(), 1u);
  EXPECT_TRUE(AreSame(a, kept[0].fds[0].get()));
  kept.clear();

  ASSERT_EQ(Send(daemon.get(), Op::kKeep, 1, "newest", {b.write.get()}), 0);
  b.write.reset();
  EXPECT_TRUE(Eventually([&] { return IsClosed(a); }));
  EXPECT_TRUE(AreSame(b, Take(daemon.get()).at(0).fds.at(0).get()));
}

TEST_F(KeeperTest, DropAndResetCloseAndLeaveNothing) {
  KeeperProcess keeper(path_);
  UniqueFd daemon = Connect();
  Take(daemon.get());  // Accepted by now.
  const size_t before = keeper.OpenFiles();
  std::vector<Pipe> pipes;
  for (uint64_t id = 1; id <= 100; ++id) {
    pipes.push_back(NewPipe());
    ASSERT_EQ(Send(daemon.get(), Op::kKeep, id, "r", {pipes.back().write.get()}), 0);
    pipes.back().write.reset();
  }
  for (uint64_t id = 1; id <= 50; ++id) ASSERT_EQ(Send(daemon.get(), Op::kDrop, id), 0);
  ASSERT_EQ(Send(daemon.get(), Op::kDrop, 4711), 0);
  EXPECT_EQ(Take(daemon.get()).size(), 50u);
  EXPECT_EQ(keeper.OpenFiles(), before + 50);
  EXPECT_TRUE(IsClosed(pipes[0]));
  EXPECT_FALSE(IsClosed(pipes[99]));
  ASSERT_EQ(Send(daemon.get(), Op::kReset, 0), 0);
  EXPECT_EQ(Take(daemon.get()).size(), 0u);
  EXPECT_EQ(keeper.OpenFiles(), before);
  EXPECT_TRUE(IsClosed(pipes[99]));
}

TEST_F(KeeperTest, WhatIsNoMessageEndsTheConnectionAndHarmsNothing) {
  KeeperProcess keeper(path_);
  {
    UniqueFd daemon = Connect();
    ASSERT_EQ(Send(daemon.get(), Op::kKeep, 1, "good"), 0);
    Take(daemon.get());
  }
  const Header lies{Op::kKeep, 5000, 2};
  const std::vector<std::string> garbage = {
      "x",
      std::string(reinterpret_cast<const char*>(&lies), sizeof(lies)) + "short",
      std::string(sizeof(Header), '\xff'),
      std::string(sizeof(Header), '\0'),
  };
  for (const std::string& packet : garbage) {
    Pipe pipe = NewPipe();
    UniqueFd daemon = Connect();
    ASSERT_EQ(SendPacket(daemon.get(), packet, {{pipe.write.get()}}), 0);
    pipe.write.reset();
    ReceivedPacket end;
    EXPECT_EQ(ReceivePacket(daemon.get(), end), ENODATA);
    EXPECT_TRUE(Eventually([&] { return IsClosed(pipe); }));
  }
  UniqueFd daemon = Connect();
  EXPECT_EQ(Take(daemon.get()).size(), 1u);
}

TEST_F(KeeperTest, EntryThatIsTooLargeIsRefusedByName) {
  KeeperProcess keeper(path_);
  UniqueFd daemon = Connect();
  const Header header{Op::kKeep, kMaxRecordBytes + 1, 9};
  std::string packet(reinterpret_cast<const char*>(&header), sizeof(header));
  packet.resize(packet.size() + kMaxRecordBytes + 1);
  ASSERT_EQ(send(daemon.get(), packet.data(), packet.size(), 0),
            static_cast<ssize_t>(packet.size()));
  Pipe pipe = NewPipe();
  const std::vector<int> many(kMaxEntryFds + 1, pipe.write.get());
  ASSERT_EQ(Send(daemon.get(), Op::kKeep, 10, "many", many), 0);
  for (uint64_t id = 9; id <= 10; ++id) {
    ReceivedPacket refusal;
    const Header refused = Receive(daemon.get(), refusal);
    EXPECT_EQ(refused.op, Op::kRefused);
    EXPECT_EQ(refused.id, id);
  }
  EXPECT_EQ(Take(daemon.get()).size(), 0u);
  pipe.write.reset();
  EXPECT_TRUE(IsClosed(pipe));
}

TEST_F(KeeperTest, OutOfDescriptorsRefusesAndGoesOn) {
  KeeperProcess keeper(path_, 20);
  UniqueFd daemon = Connect();
  Pipe pipe = NewPipe();
  uint64_t id = 0;
  ReceivedPacket refusal;
  for (Header answer{};;) {
    ASSERT_LT(++id, 50u) << "never refused";
    ASSERT_EQ(Send(daemon.get(), Op::kKeep, id, "r", {pipe.write.get()}), 0);
    ASSERT_EQ(Send(daemon.get(), Op::kTake, 0), 0);
    answer = Receive(daemon.get(), refusal);
    const bool refused = answer.op == Op::kRefused;
    while (answer.op != Op::kEnd) {
      answer = Receive(daemon.get(), refusal);
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_EQ(answer.id, refused ? id - 1 : id);
    if (refused) break;
  }
  EXPECT_GT(id, 10u);
  ASSERT_EQ(Send(daemon.get(), Op::kDrop, 1), 0);
  ASSERT_EQ(Send(daemon.get(), Op::kKeep, id, "again", {pipe.write.get()}), 0);
  EXPECT_EQ(Take(daemon.get()).size(), id - 1);
}

TEST_F(KeeperTest, SecondDaemonWaitsForTheEndOfTheFirst) {
  KeeperProcess keeper(path_);
  UniqueFd first = Connect();
  EXPECT_EQ(Take(first.get()).size(), 0u);
  UniqueFd second = Connect();
  ASSERT_EQ(Send(second.get(), Op::kTake, 0), 0);
  char byte;
  ASSERT_EQ(Send(first.get(), Op::kKeep, 1, "of the first"), 0);
  EXPECT_EQ(Take(first.get()).size(), 1u);
  EXPECT_EQ(recv(second.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1);
  ASSERT_EQ(Send(first.get(), Op::kKeep, 2, "its last"), 0);
  first.reset();
  ReceivedPacket packet;
  EXPECT_EQ(Receive(second.get(), packet).id, 1u);
  EXPECT_EQ(Receive(second.get(), packet).id, 2u);
  EXPECT_EQ(Receive(second.get(), packet).op, Op::kEnd);
}

TEST_F(KeeperTest, ExecOfItsNextVersionLosesNothing) {
  KeeperProcess keeper(path_);
  UniqueFd daemon = Connect();
  Pipe pipe = NewPipe();
  ASSERT_EQ(Send(daemon.get(), Op::kKeep, 1, "one", {pipe.write.get()}), 0);
  pipe.write.reset();
  Take(daemon.get());
  const size_t before = keeper.OpenFiles();
  for (uint64_t round = 2; round < 5; ++round) {
    keeper.Signal(SIGHUP);
    // The connection goes on, also for what is sent meanwhile.
    ASSERT_EQ(Send(daemon.get(), Op::kKeep, round, "later"), 0);
    std::vector<Kept> kept = Take(daemon.get());
    ASSERT_EQ(kept.size(), round);
    EXPECT_EQ(kept[0].record, "one");
    EXPECT_TRUE(AreSame(pipe, kept[0].fds.at(0).get()));
  }
  EXPECT_EQ(keeper.OpenFiles(), before);
  // The next daemon finds it as well.
  daemon = Connect();
  EXPECT_EQ(Take(daemon.get()).size(), 4u);
}

TEST_F(KeeperTest, SurvivesSignalsWithoutMeaning) {
  KeeperProcess keeper(path_);
  UniqueFd daemon = Connect();
  ASSERT_EQ(Send(daemon.get(), Op::kKeep, 1, "one"), 0);
  keeper.Signal(SIGUSR1);
  keeper.Signal(SIGPIPE);
  daemon.reset();
  daemon = Connect();
  EXPECT_EQ(Take(daemon.get()).size(), 1u);
  EXPECT_TRUE(keeper.IsRunning());
}

TEST_F(KeeperTest, TwoOfThemDoNotShareASocket) {
  KeeperProcess keeper(path_);
  const std::string second = std::string(testing::kKeeperProgram) + " " + path_ + " 2>/dev/null";
  const int status = std::system(second.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(Take(Connect().get()).size(), 0u);
}

TEST_F(KeeperTest, SocketOfADeadOneIsReplaced) {
  { KeeperProcess keeper(path_); }
  KeeperProcess keeper(path_);
  EXPECT_EQ(Take(Connect().get()).size(), 0u);
}

// A sanitizer brings libraries of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(KeeperTest, NeedsLibcAlone) {
  const std::string command = std::string("ldd ") + testing::kKeeperProgram;
  std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  std::array<char, 256> line;
  int others = 0;
  bool libc = false;
  while (fgets(line.data(), line.size(), output.get()) != nullptr) {
    const std::string text = line.data();
    if (text.find("libc.so") != std::string::npos) {
      libc = true;
    } else if (text.find("linux-vdso") == std::string::npos &&
               text.find("/ld-linux") == std::string::npos) {
      ++others;
      ADD_FAILURE() << text;
    }
  }
  EXPECT_TRUE(libc);
  EXPECT_EQ(others, 0);
}
#endif

}  // namespace
}  // namespace qpbroker::keeper
