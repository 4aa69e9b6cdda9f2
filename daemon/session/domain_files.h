// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_SESSION_DOMAIN_FILES_H_
#define QPBROKER_DAEMON_SESSION_DOMAIN_FILES_H_

// The files behind domains, in one directory that only root can enter. Their names are numbers of
// ours: no client's string becomes a path.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/unique_fd.h"
#include "daemon/core/ports.h"

namespace qpbroker::session {

class DomainFiles : public core::DomainFilePort {
 public:
  // Makes `directory` (mode 0700) if it does not exist. An error says what stands in the way, e.g.
  // that somebody else owns the directory.
  static absl::StatusOr<std::unique_ptr<DomainFiles>> Open(const std::string& directory);

  // Any thread.
  absl::StatusOr<std::unique_ptr<core::DomainFile>> CreateDomainFile() override;
  absl::StatusOr<std::unique_ptr<core::DomainFile>> AdoptDomainFile(const std::string& name,
                                                                    UniqueFd fd) override;

  // Removes the files in the directory that are no domain's: an earlier daemon's that nobody
  // adopted. Before the first creation.
  absl::Status RemoveStrangers();

  // The directory, shared with the files, which remove themselves.
  struct Directory {
    explicit Directory(UniqueFd directory) : fd(std::move(directory)) {}
    const UniqueFd fd;
    absl::Mutex mutex;
    absl::btree_set<std::string> names ABSL_GUARDED_BY(mutex);
    uint64_t last ABSL_GUARDED_BY(mutex) = 0;
  };

 private:
  explicit DomainFiles(UniqueFd directory)
      : directory_(std::make_shared<Directory>(std::move(directory))) {}

  const std::shared_ptr<Directory> directory_;
};

}  // namespace qpbroker::session

#endif  // QPBROKER_DAEMON_SESSION_DOMAIN_FILES_H_
