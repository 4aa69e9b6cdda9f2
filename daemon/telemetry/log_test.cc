// SPDX-License-Identifier: Apache-2.0
#include "daemon/telemetry/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

namespace qpbroker::telemetry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Standard error of this process, as a pipe.
class CapturedStderr {
 public:
  CapturedStderr() : saved_(dup(STDERR_FILENO)) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end_ = UniqueFd(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
  }
  ~CapturedStderr() { Restore(); }

  // What was written until now; standard error is the old one again.
  std::string Restore() {
    std::string text;
    if (!saved_) return text;
    dup2(saved_.get(), STDERR_FILENO);
    saved_.reset();
    char buffer[4096];
    for (ssize_t n; (n = read(read_end_.get(), buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }

 private:
  UniqueFd saved_;
  UniqueFd read_end_;
};

TEST(LogTest, LineHasIdNameAndEscapedText) {
  CapturedStderr captured;
  StartLog(Level::kInfo);
  Log(Event::kProtocolViolation, "uid 7: \x1b[31m\nQPB1000 daemon.started: not true");
  EXPECT_TRUE(StopLog());
  const std::string text = captured.Restore();
  EXPECT_THAT(text,
              HasSubstr("warning QPB1201 peer.protocol_violation: uid 7: \\033[31m\\nQPB1000"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(LogTest, LinesBelowTheLevelAreLeftOut) {
  CapturedStderr captured;
  StartLog(Level::kError);
  Log(Event::kStarted, "quiet");
  Log(Event::kReleaseFailed, "loud");
  EXPECT_TRUE(StopLog());
  const std::string text = captured.Restore();
  EXPECT_THAT(text, Not(HasSubstr("quiet")));
  EXPECT_THAT(text, HasSubstr("loud"));
}

TEST(LogTest, RepeatedLinesAreWrittenOncePerUser) {
  CapturedStderr captured;
  StartLog(Level::kInfo);
  for (int i = 0; i < 100; ++i) {
    LogLimited(Event::kPeerRefused, uid_t{4711}, absl::StrCat("time ", i));
  }
  LogLimited(Event::kPeerRefused, uid_t{4712}, "another");
  EXPECT_TRUE(StopLog());
  const std::string text = captured.Restore();
  EXPECT_THAT(text, HasSubstr("uid 4711: time 0"));
  EXPECT_THAT(text, Not(HasSubstr("time 1")));
  EXPECT_THAT(text, HasSubstr("uid 4712: another"));
}

// As when journald is stopped.
TEST(LogTest, AReaderThatIsStuckDelaysNobody) {
  CapturedStderr captured;
  StartLog(Level::kInfo);
  const std::string line(500, 'x');
  for (int i = 0; i < 5000; ++i) Log(Event::kStarted, line);
  EXPECT_FALSE(StopLog()) << "it cannot have written all of it";
  captured.Restore();  // Reads until the writer has let go.
}

TEST(EventCatalogueTest, NumbersRiseAndNamesAreUnique) {
  std::set<std::string> names;
  uint16_t last = 0;
  for (const EventEntry& entry : kEventCatalogue) {
    EXPECT_GT(static_cast<uint16_t>(entry.event), last);
    last = static_cast<uint16_t>(entry.event);
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_STRNE(entry.meaning, "");
    EXPECT_EQ(&EventEntryOf(entry.event), &entry);
  }
}

}  // namespace
}  // namespace qpbroker::telemetry
