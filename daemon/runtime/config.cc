// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/config.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <grp.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/error_reason.h"
#include "qpbroker/config/v1/config.pb.h"

namespace qpbroker::runtime {
namespace {

namespace proto = config::v1;

absl::Status Invalid(absl::string_view key, absl::string_view why) {
  return MakeError(v1::REASON_INVALID_FIELD, absl::StrCat(key, ": ", why),
                   {{"field", std::string(key)}});
}

// Keeps the first complaint, with its line.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = absl::StrCat("line ", line + 1, ":", column + 1, ": ", message);
  }
  std::string text;
};

using google::protobuf::TextFormat;

// `places` gets where everything stands.
absl::StatusOr<proto::Config> Parse(const std::string& path, TextFormat::ParseInfoTree& places) {
  proto::Config config;
  if (path.empty()) return config;
  errno = 0;
  std::ifstream file(path);
  std::stringstream text;
  // A directory can be opened; only reading it fails, and that shows in `text`.
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || text.fail()) {
    return ErrnoError(v1::REASON_INVALID_FIELD, errno, absl::StrCat("read ", path));
  }
  FirstError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&places);
  if (!parser.ParseFromString(text.str(), &config)) return Invalid(path, error.text);
  return config;
}

// The line of `key`, e.g. "api_socket.mode", from 1; 0 if it is not in the file.
int LineOf(absl::string_view key, const TextFormat::ParseInfoTree& places) {
  constexpr int kNotRepeated = -1;
  const google::protobuf::Descriptor* message = proto::Config::descriptor();
  const TextFormat::ParseInfoTree* tree = &places;
  int line = 0;
  for (absl::string_view part : absl::StrSplit(key, '.')) {
    const auto* field = message == nullptr ? nullptr : message->FindFieldByName(std::string(part));
    if (field == nullptr || tree == nullptr) return 0;
    line = tree->GetLocation(field, kNotRepeated).line + 1;
    message = field->message_type();
    tree = tree->GetTreeForNested(field, kNotRepeated);
  }
  return line;
}

// Adds the line to a complaint about a key.
absl::Status WithLine(const absl::Status& status, const TextFormat::ParseInfoTree& places) {
  std::optional<google::rpc::ErrorInfo> info = ErrorInfoOf(status);
  const std::string key = info ? (*info->mutable_metadata())["field"] : "";
  const int line = LineOf(key, places);
  if (line == 0) return status;
  return MakeError(v1::REASON_INVALID_FIELD, absl::StrCat("line ", line, ": ", status.message()),
                   {{"field", key}});
}

absl::StatusOr<gid_t> FindGroup(absl::string_view key, const std::string& name) {
  gid_t gid = 0;
  if (absl::SimpleAtoi(name, &gid)) return gid;
  errno = 0;
  if (const group* found = getgrnam(name.c_str())) return found->gr_gid;
  return Invalid(key, absl::StrCat("there is no group \"", name, "\""));
}

// The group that a socket has unless the configuration names one. Where the packages have not made
// it, only root gets in; a daemon that a user runs for themselves keeps its own group.
gid_t DefaultGroup(const char* name) {
  if (geteuid() != 0) return getegid();
  const group* found = name == nullptr ? nullptr : getgrnam(name);
  return found == nullptr ? 0 : found->gr_gid;
}

struct SocketDefaults {
  const char* name;
  mode_t mode;
  const char* group;
};

absl::Status Resolve(const proto::Socket& socket, const SocketDefaults& defaults,
                     const std::string& runtime_dir, SocketConfig& resolved) {
  const std::string key = absl::StrCat(defaults.name, "_socket");
  resolved.path = absl::StrCat(runtime_dir, "/", defaults.name, ".sock");
  resolved.mode = socket.has_mode() ? socket.mode() : defaults.mode;
  if ((resolved.mode & ~0777u) != 0) return Invalid(absl::StrCat(key, ".mode"), "is above 0777");
  resolved.group = DefaultGroup(defaults.group);
  if (socket.has_group()) {
    absl::StatusOr<gid_t> group = FindGroup(absl::StrCat(key, ".group"), socket.group());
    if (!group.ok()) return group.status();
    resolved.group = *group;
  }
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view key, uint32_t value, uint32_t least, uint32_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Invalid(key, absl::StrCat(value, " is not in ", least, " to ", most));
}

telemetry::Level ToLevel(proto::LogLevel level) {
  switch (level) {
    case proto::LOG_LEVEL_DEBUG:
      return telemetry::Level::kDebug;
    case proto::LOG_LEVEL_WARNING:
      return telemetry::Level::kWarning;
    case proto::LOG_LEVEL_ERROR:
      return telemetry::Level::kError;
    default:
      return telemetry::Level::kInfo;
  }
}

absl::Status SetDirectories(const proto::Config& from, const std::string& runtime_dir, Config& to) {
  to.runtime_dir = runtime_dir.empty() ? from.runtime_dir() : runtime_dir;
  to.state_dir = runtime_dir.empty() || from.has_state_dir()
                     ? from.state_dir()
                     : absl::StrCat(runtime_dir, "/private");
  // A relative path would mean another place after a restart elsewhere.
  if (to.runtime_dir.empty() || to.runtime_dir[0] != '/') {
    return Invalid("runtime_dir", "must be an absolute path");
  }
  if (to.state_dir.empty() || to.state_dir[0] != '/') {
    return Invalid("state_dir", "must be an absolute path");
  }
  return absl::OkStatus();
}

absl::Status SetSockets(const proto::Config& from, Config& to) {
  const std::string& dir = to.runtime_dir;
  to.keeper_socket =
      from.has_keeper_socket() ? from.keeper_socket() : absl::StrCat(dir, "/keeper.sock");
  absl::Status status =
      Resolve(from.session_socket(), {"session", 0666, nullptr}, dir, to.session_socket);
  if (status.ok()) status = Resolve(from.api_socket(), {"api", 0666, nullptr}, dir, to.api_socket);
  if (status.ok()) {
    status = Resolve(from.inspect_socket(), {"inspect", 0660, "qpbroker-inspect"}, dir,
                     to.inspect_socket);
  }
  if (status.ok()) {
    status = Resolve(from.admin_socket(), {"admin", 0660, "qpbroker-admin"}, dir, to.admin_socket);
  }
  return status;
}

absl::Status SetNumbers(const proto::Config& from, Config& to) {
  absl::Status status = CheckRange("verbs_threads", from.verbs_threads(), 1, 64);
  if (status.ok()) {
    status =
        CheckRange("lingering_probe_interval_ms", from.lingering_probe_interval_ms(), 10, 3600000);
  }
  if (status.ok()) {
    status = CheckRange("attach_timeout_ms", from.attach_timeout_ms(), 100, 600000);
  }
  const proto::Quotas& quotas = from.quotas();
  to.quotas = {quotas.connections(), quotas.sessions(), quotas.leases(), quotas.xrcds(),
               quotas.qps()};
  to.verbs_threads = from.verbs_threads();
  to.lingering_probe_interval = absl::Milliseconds(from.lingering_probe_interval_ms());
  to.attach_timeout = absl::Milliseconds(from.attach_timeout_ms());
  to.log_level = ToLevel(from.log_level());
  return status;
}

}  // namespace

absl::StatusOr<Config> LoadConfig(const std::string& path, const std::string& runtime_dir) {
  TextFormat::ParseInfoTree places;
  absl::StatusOr<proto::Config> parsed = Parse(path, places);
  if (!parsed.ok()) return parsed.status();
  Config config;
  absl::Status status = SetDirectories(*parsed, runtime_dir, config);
  if (status.ok()) status = SetSockets(*parsed, config);
  if (status.ok()) status = SetNumbers(*parsed, config);
  if (!status.ok()) return WithLine(status, places);
  return config;
}

}  // namespace qpbroker::runtime
