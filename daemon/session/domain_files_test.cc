// SPDX-License-Identifier: Apache-2.0
#include "daemon/session/domain_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"

namespace qpbroker::session {
namespace {

size_t FilesIn(const std::string& directory) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

size_t OpenFiles() { return FilesIn("/proc/self/fd"); }

struct stat StatOf(int fd) {
  struct stat status {};
  EXPECT_EQ(fstat(fd, &status), 0);
  return status;
}

class DomainFilesTest : public ::testing::Test {
 protected:
  DomainFilesTest() {
    char path[] = "/tmp/qpb-files-XXXXXX";
    if (mkdtemp(path) == nullptr) std::abort();
    base_ = path;
    directory_ = base_ + "/private";
  }
  ~DomainFilesTest() override {
    std::filesystem::remove_all(base_);
    EXPECT_EQ(OpenFiles(), open_before_);
  }
  // What is wrong with the directory.
  std::string Complaint() {
    absl::Status status = DomainFiles::Open(directory_).status();
    EXPECT_EQ(ReasonOf(status), v1::REASON_INVALID_FIELD) << status;
    return std::string(status.message());
  }

  const size_t open_before_ = OpenFiles();
  std::string base_;
  std::string directory_;
};

TEST_F(DomainFilesTest, DirectoryAndFilesArePrivateWhateverTheUmask) {
  const mode_t old = umask(0);
  auto files = DomainFiles::Open(directory_);
  ASSERT_TRUE(files.ok()) << files.status();
  auto file = (*files)->CreateDomainFile();
  umask(old);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(std::filesystem::status(directory_).permissions(), std::filesystem::perms::owner_all);
  const struct stat made = StatOf((*file)->fd());
  EXPECT_TRUE(S_ISREG(made.st_mode));
  EXPECT_EQ(made.st_mode & 07777, 0600u);
  EXPECT_EQ(made.st_nlink, 1u);
}

TEST_F(DomainFilesTest, EachDomainHasItsOwnInodeAndItsFileGoesWithIt) {
  auto files = *DomainFiles::Open(directory_);
  auto first = *files->CreateDomainFile();
  auto second = *files->CreateDomainFile();
  EXPECT_NE(StatOf(first->fd()).st_ino, StatOf(second->fd()).st_ino);
  EXPECT_EQ(FilesIn(directory_), 2u);
  first.reset();
  EXPECT_EQ(FilesIn(directory_), 1u);
  files.reset();  // A domain may outlive the port.
  second.reset();
  EXPECT_EQ(FilesIn(directory_), 0u);
}

TEST_F(DomainFilesTest, HandedOutDescriptorIsReadOnlyAndNotOurs) {
  auto file = *(*DomainFiles::Open(directory_))->CreateDomainFile();
  auto copy = file->ReopenReadOnly();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(StatOf(copy->get()).st_ino, StatOf(file->fd()).st_ino);
  EXPECT_EQ(fcntl(copy->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(fcntl(copy->get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(write(copy->get(), "x", 1), -1);
  // Another open file description: the flags of the one do not change those of the other.
  ASSERT_EQ(fcntl(copy->get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(fcntl(file->fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(DomainFilesTest, FilesOfAnEarlierDaemonAreRemovedAndNothingElse) {
  std::filesystem::create_directory(directory_);
  std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
  std::ofstream(directory_ + "/xrcd-1") << "old";
  std::ofstream(base_ + "/precious") << "mine";
  std::filesystem::create_symlink(base_ + "/precious", directory_ + "/link");
  std::filesystem::create_directory(directory_ + "/sub");
  auto files = DomainFiles::Open(directory_);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_TRUE((*files)->RemoveStrangers().ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/xrcd-1"));
  EXPECT_TRUE(std::filesystem::exists(base_ + "/precious")) << "the link goes, its target stays";
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/sub"));
  EXPECT_TRUE((*files)->CreateDomainFile().ok());
}

TEST_F(DomainFilesTest, AnAdoptedFileStaysAndGoesWithItsDomain) {
  UniqueFd kept;
  {
    auto files = *DomainFiles::Open(directory_);
    std::ofstream(directory_ + "/xrcd-7") << "old";
    std::ofstream(directory_ + "/xrcd-8") << "stranger";
    kept.reset(open((directory_ + "/xrcd-7").c_str(), O_RDWR | O_CLOEXEC));
  }
  auto files = *DomainFiles::Open(directory_);
  auto adopted = files->AdoptDomainFile("xrcd-7", std::move(kept));
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  ASSERT_TRUE(files->RemoveStrangers().ok());
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/xrcd-7"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/xrcd-8"));
  std::vector<std::unique_ptr<core::DomainFile>> more;
  for (int i = 0; i < 10; ++i) more.push_back(*files->CreateDomainFile());
  EXPECT_EQ(FilesIn(directory_), 11u) << "no name was used twice";
  adopted->reset();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/xrcd-7"));
}

TEST_F(DomainFilesTest, AnAdoptedFileUnderAnothersNameRemovesNothing) {
  auto files = *DomainFiles::Open(directory_);
  std::ofstream(base_ + "/elsewhere") << "x";
  std::ofstream(directory_ + "/xrcd-7") << "not this one";
  auto adopted = files->AdoptDomainFile(
      "xrcd-7", UniqueFd(open((base_ + "/elsewhere").c_str(), O_RDWR | O_CLOEXEC)));
  ASSERT_TRUE(adopted.ok());
  adopted->reset();
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/xrcd-7"));
  EXPECT_EQ(ReasonOf(files->AdoptDomainFile("d", UniqueFd(open(base_.c_str(), O_RDONLY))).status()),
            v1::REASON_INVALID_FIELD);
}

TEST_F(DomainFilesTest, DirectoriesThatOthersCanEnterAreRefused) {
  std::filesystem::create_directory(directory_);
  std::filesystem::permissions(directory_, std::filesystem::perms(0755));
  EXPECT_NE(Complaint().find("chmod 0700"), std::string::npos);
}

TEST_F(DomainFilesTest, LinksAndFilesInTheWayAreRefused) {
  std::filesystem::create_directory(base_ + "/elsewhere");
  std::filesystem::permissions(base_ + "/elsewhere", std::filesystem::perms::owner_all);
  std::filesystem::create_symlink(base_ + "/elsewhere", directory_);
  EXPECT_NE(Complaint().find(directory_), std::string::npos);
  std::filesystem::remove(directory_);
  std::ofstream(directory_) << "a file";
  EXPECT_NE(Complaint().find(directory_), std::string::npos);
}

}  // namespace
}  // namespace qpbroker::session
