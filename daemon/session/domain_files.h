// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_SESSION_DOMAIN_FILES_H_
#define QPBROKER_DAEMON_SESSION_DOMAIN_FILES_H_

// The files behind domains, in one directory that only root can enter. Their names are numbers of
// ours: no client's string becomes a path.

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "daemon/core/ports.h"

namespace qpbroker::session {

class DomainFiles : public core::DomainFilePort {
 public:
  // Makes `directory` (mode 0700) if it does not exist and removes the files in it, which an
  // earlier daemon left. An error says what stands in the way, e.g. that somebody else owns the
  // directory.
  static absl::StatusOr<std::unique_ptr<DomainFiles>> Open(const std::string& directory);

  // Any thread.
  absl::StatusOr<std::unique_ptr<core::DomainFile>> CreateDomainFile() override;

 private:
  explicit DomainFiles(UniqueFd directory)
      : directory_(std::make_shared<UniqueFd>(std::move(directory))) {}

  const std::shared_ptr<UniqueFd> directory_;  // Shared with the files, which remove themselves.
  std::atomic<uint64_t> last_{0};
};

}  // namespace qpbroker::session

#endif  // QPBROKER_DAEMON_SESSION_DOMAIN_FILES_H_
