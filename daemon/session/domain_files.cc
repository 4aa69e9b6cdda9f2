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
  PrivateFile(std::shared_ptr<DomainFiles::Directory> directory, std::string name, UniqueFd fd)
      : directory_(std::move(directory)), name_(std::move(name)), fd_(std::move(fd)) {}
  ~PrivateFile() override {
    absl::MutexLock lock(&directory_->mutex);
    if (directory_->names.erase(name_) == 1) unlinkat(directory_->fd.get(), name_.c_str(), 0);
  }

  int fd() const override { return fd_.get(); }
  const std::string& name() const override { return name_; }

  absl::StatusOr<UniqueFd> ReopenReadOnly() const override {
    UniqueFd copy(open(absl::StrCat("/proc/self/fd/", fd_.get()).c_str(), O_RDONLY | O_CLOEXEC));
    if (!copy) return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "open");
    return copy;
  }

 private:
  const std::shared_ptr<DomainFiles::Directory> directory_;
  const std::string name_;
  const UniqueFd fd_;
};

absl::Status Refuse(const std::string& directory, absl::string_view why) {
  return MakeError(v1::REASON_INVALID_FIELD, absl::StrCat("state_dir ", directory, " ", why),
                   {{"field", "state_dir"}});
}

// Whether `name` in `directory` is the file behind `fd`.
bool IsFile(int directory, const std::string& name, int fd) {
  struct stat named;
  struct stat opened;
  return fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
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
  return std::unique_ptr<DomainFiles>(new DomainFiles(std::move(fd)));
}

absl::StatusOr<std::unique_ptr<core::DomainFile>> DomainFiles::CreateDomainFile() {
  absl::MutexLock lock(&directory_->mutex);
  for (;;) {
    std::string name = absl::StrCat("xrcd-", ++directory_->last);
    UniqueFd fd(openat(directory_->fd.get(), name.c_str(),
                       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    // The name of a file that was adopted.
    if (!fd && errno == EEXIST) continue;
    if (!fd) return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "openat");
    directory_->names.insert(name);
    return std::make_unique<PrivateFile>(directory_, std::move(name), std::move(fd));
  }
}

absl::StatusOr<std::unique_ptr<core::DomainFile>> DomainFiles::AdoptDomainFile(
    const std::string& name, UniqueFd fd) {
  struct stat status;
  if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return MakeError(v1::REASON_INVALID_FIELD, "what was kept of it is no file");
  }
  absl::MutexLock lock(&directory_->mutex);
  // A file whose name somebody removed is as good as before; only there is nothing to remove.
  if (IsFile(directory_->fd.get(), name, fd.get())) directory_->names.insert(name);
  return std::make_unique<PrivateFile>(directory_, name, std::move(fd));
}

absl::Status DomainFiles::RemoveStrangers() {
  // Of its own open file description, since a directory stream has a position.
  UniqueFd directory(openat(directory_->fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* stream = directory ? fdopendir(directory.get()) : nullptr;
  if (stream == nullptr) return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "fdopendir");
  static_cast<void>(directory.release());
  absl::MutexLock lock(&directory_->mutex);
  while (dirent* entry = readdir(stream)) {
    // Fails for what is not a file, which stays.
    if (!directory_->names.contains(entry->d_name)) unlinkat(dirfd(stream), entry->d_name, 0);
  }
  closedir(stream);
  return absl::OkStatus();
}

}  // namespace qpbroker::session
