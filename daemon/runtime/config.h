// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RUNTIME_CONFIG_H_
#define QPBROKER_DAEMON_RUNTIME_CONFIG_H_

// The configuration: read, checked and resolved. Names, defaults and limits are config.proto's.

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/ledger.h"
#include "daemon/telemetry/log.h"

namespace qpbroker::runtime {

struct SocketConfig {
  std::string path;
  mode_t mode = 0;
  gid_t group = 0;
};

struct Config {
  std::string runtime_dir;
  std::string state_dir;
  SocketConfig session_socket;
  SocketConfig api_socket;
  SocketConfig inspect_socket;
  SocketConfig admin_socket;
  std::string keeper_socket;
  core::QuotaLimits quotas{};
  size_t verbs_threads = 0;
  absl::Duration lingering_probe_interval;
  absl::Duration attach_timeout;
  telemetry::Level log_level = telemetry::Level::kInfo;
};

// Reads the file at `path`; an empty path means an empty file. A `runtime_dir` that is not empty
// takes the place of the file's, and moves a state_dir that the file does not name along.
// INVALID_FIELD with the line or the key that is wrong.
absl::StatusOr<Config> LoadConfig(const std::string& path, const std::string& runtime_dir);

}  // namespace qpbroker::runtime

#endif  // QPBROKER_DAEMON_RUNTIME_CONFIG_H_
