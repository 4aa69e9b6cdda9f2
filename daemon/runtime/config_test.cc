// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/error_reason.h"

namespace qpbroker::runtime {
namespace {

absl::StatusOr<Config> Load(const std::string& text, const std::string& runtime_dir = "") {
  const std::string path = ::testing::TempDir() + "/qpbroker.conf";
  std::ofstream(path) << text;
  return LoadConfig(path, runtime_dir);
}

std::string Complaint(const std::string& text) {
  absl::Status status = Load(text).status();
  EXPECT_EQ(ReasonOf(status), v1::REASON_INVALID_FIELD) << text;
  return std::string(status.message());
}

TEST(ConfigTest, EmptyFileGivesTheDocumentedDefaults) {
  absl::StatusOr<Config> config = Load("");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->runtime_dir, "/run/qpbroker");
  EXPECT_EQ(config->state_dir, "/run/qpbroker/private");
  EXPECT_EQ(config->session_socket.path, "/run/qpbroker/session.sock");
  EXPECT_EQ(config->session_socket.mode, 0666u);
  EXPECT_EQ(config->api_socket.mode, 0666u);
  EXPECT_EQ(config->inspect_socket.mode, 0660u);
  EXPECT_EQ(config->admin_socket.mode, 0660u);
  EXPECT_EQ(config->quotas, (core::QuotaLimits{256, 256, 16384, 64, 16384}));
  EXPECT_EQ(config->verbs_threads, 4u);
}

TEST(ConfigTest, RuntimeDirOnTheCommandLineMovesEverythingAlong) {
  absl::StatusOr<Config> config = Load("", "/tmp/x");
  EXPECT_EQ(config->api_socket.path, "/tmp/x/api.sock");
  EXPECT_EQ(config->state_dir, "/tmp/x/private");
  config = Load("state_dir: '/var/lib/x'", "/tmp/x");
  EXPECT_EQ(config->state_dir, "/var/lib/x");
}

TEST(ConfigTest, MistakesAreToldWithTheirPlace) {
  EXPECT_NE(Complaint("verbs_threads: 4\nno_such_key: 1").find("line 2"), std::string::npos);
  EXPECT_NE(Complaint("verbs_threads: 0").find("verbs_threads"), std::string::npos);
  EXPECT_NE(Complaint("attach_timeout_ms: 1").find("attach_timeout_ms"), std::string::npos);
  EXPECT_NE(Complaint("runtime_dir: 'run'").find("absolute"), std::string::npos);
  EXPECT_NE(Complaint("api_socket { mode: 4096 }").find("api_socket.mode"), std::string::npos);
  EXPECT_NE(Complaint("admin_socket { group: 'no-such-group' }").find("no-such-group"),
            std::string::npos);
  EXPECT_NE(Complaint("log_level: LOUD").find("line 1"), std::string::npos);
  EXPECT_EQ(Complaint("# a comment\nquotas { leases: 1 }\nverbs_threads: 65").find("line 3: "), 0u);
  EXPECT_EQ(Complaint("api_socket {\n  mode: 4096\n}").find("line 2: "), 0u);
}

TEST(ConfigTest, FilesThatCannotBeReadAreErrors) {
  EXPECT_NE(LoadConfig("/nonexistent/qpbroker.conf", "").status().message().find("No such file"),
            absl::string_view::npos);
  EXPECT_NE(LoadConfig("/proc", "").status().message().find("directory"), absl::string_view::npos);
}

TEST(ConfigTest, GroupsMayBeNamesOrNumbers) {
  EXPECT_EQ(Load("admin_socket { group: '4711' }")->admin_socket.group, 4711u);
  EXPECT_EQ(Load("admin_socket { group: 'root' }")->admin_socket.group, 0u);
}

// The sample file documents every key with its default: with all comments taken off it changes
// nothing.
TEST(ConfigTest, SampleFileStatesTheDefaults) {
  std::ifstream sample("deploy/config/qpbroker.conf");
  ASSERT_TRUE(sample.is_open());
  std::string text, line;
  while (std::getline(sample, line)) {
    if (line.rfind("#", 0) == 0 && line.rfind("# ", 0) != 0) line = line.substr(1);
    if (line.rfind("# ", 0) != 0) text += line + "\n";
  }
  EXPECT_NE(text.find("verbs_threads"), std::string::npos);
  absl::StatusOr<Config> stated = Load(text);
  ASSERT_TRUE(stated.ok()) << stated.status();
  absl::StatusOr<Config> defaults = Load("");
  EXPECT_EQ(stated->runtime_dir, defaults->runtime_dir);
  EXPECT_EQ(stated->state_dir, defaults->state_dir);
  EXPECT_EQ(stated->quotas, defaults->quotas);
  EXPECT_EQ(stated->verbs_threads, defaults->verbs_threads);
  EXPECT_EQ(stated->attach_timeout, defaults->attach_timeout);
  EXPECT_EQ(stated->lingering_probe_interval, defaults->lingering_probe_interval);
  EXPECT_EQ(stated->session_socket.mode, defaults->session_socket.mode);
  EXPECT_EQ(stated->admin_socket.mode, defaults->admin_socket.mode);
  EXPECT_EQ(stated->log_level, defaults->log_level);
}

}  // namespace
}  // namespace qpbroker::runtime
