// SPDX-License-Identifier: Apache-2.0
//
// The kernel keys an XRC domain by (device, inode), so the file is the domain. Clients get a
// read-only descriptor of an open file description of its own: a dup of ours would let them change
// its flags and offset, and a writable one its content.
#include "daemon/session/domain_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"

namespace qpbroker::session {
namespace {

class PrivateFile : public core::DomainFile {
 public:
  PrivateFile(std::shared_ptr<UniqueFd> directory, std::string name, UniqueFd fd)
      : directory_(std::move(directory)), name_(std::move(name)), fd_(std::move(fd)) {}
  ~PrivateFile() override { unlinkat(directory_->get(), name_.c_str(), 0); }

  int fd() const override { return fd_.get(); }

  absl::StatusOr<UniqueFd> ReopenReadOnly() const override {
    UniqueFd copy(open(absl::StrCat("/proc/self/fd/", fd_.get()).c_str(), O_RDONLY | O_CLOEXEC));
    if (!copy) return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "open");
    return copy;
  }

 private:
  const std::shared_ptr<UniqueFd> directory_;
  const std::string name_;
  const UniqueFd fd_;
};

absl::Status Refuse(const std::string& directory, absl::string_view why) {
  return MakeError(v1::REASON_INVALID_FIELD, absl::StrCat("state_dir ", directory, " ", why),
                   {{"field", "state_dir"}});
}

absl::Status RemoveFiles(int directory) {
  DIR* stream = fdopendir(dup(directory));
  if (stream == nullptr) return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "fdopendir");
  while (dirent* entry = readdir(stream)) {
    // Fails for what is not a file, which stays.
    unlinkat(directory, entry->d_name, 0);
  }
  closedir(stream);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DomainFiles>> DomainFiles::Open(const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(v1::REASON_INVALID_FIELD, errno, absl::StrCat("mkdir ", directory));
  }
  UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return ErrnoError(v1::REASON_INVALID_FIELD, errno, absl::StrCat("open ", directory));
  struct stat status;
  if (fstat(fd.get(), &status) != 0) {
    return ErrnoError(v1::REASON_INVALID_FIELD, errno, absl::StrCat("stat ", directory));
  }
  if (status.st_uid != geteuid()) return Refuse(directory, "belongs to another user");
  if ((status.st_mode & 077) != 0) return Refuse(directory, "can be entered by others: chmod 0700");
  if (absl::Status removed = RemoveFiles(fd.get()); !removed.ok()) return removed;
  return std::unique_ptr<DomainFiles>(new DomainFiles(std::move(fd)));
}

absl::StatusOr<std::unique_ptr<core::DomainFile>> DomainFiles::CreateDomainFile() {
  std::string name = absl::StrCat("xrcd-", ++last_);
  UniqueFd fd(openat(directory_->get(), name.c_str(),
                     O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "openat");
  return std::make_unique<PrivateFile>(directory_, std::move(name), std::move(fd));
}

}  // namespace qpbroker::session
