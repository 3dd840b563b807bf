#include "analyzer/export/output_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "analyzer/base/output_target.h"

namespace heapprof::exporter {
namespace {

namespace fs = std::filesystem;

bool is_open_here(const struct stat& file) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd", error)) {
    struct stat open {};
    if (::fstat(std::atoi(entry.path().filename().c_str()), &open) == 0 && is_same_file(open, file)) return true;
  }
  return false;
}

/// A file that a container has from its host, for example, which rename(2) refuses to replace.
bool is_mount_point(const char* path) {
  constexpr std::uint64_t kMountRoot = 0x2000;  // STATX_ATTR_MOUNT_ROOT, since Linux 5.8
  struct statx status {};
  return ::statx(AT_FDCWD, path, 0, 0, &status) == 0 && (status.stx_attributes & kMountRoot) != 0;
}

bool can_have_temporary_name(const fs::path& target) {
  const std::size_t bytes = target.filename().native().size();
  return bytes != 0 && bytes + AtomicFile::kTemporaryBytes <= NAME_MAX;
}

/// Whether another file can get the name of the regular file `target`.
bool can_be_replaced(const fs::path& target, const struct stat& file) {
  const fs::path directory = target.has_parent_path() ? target.parent_path() : fs::path(".");
  struct stat found {};
  return ::lstat(target.c_str(), &found) == 0 && is_same_file(found, file) && file.st_nlink == 1 &&
         ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) == 0 &&
         ::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0 && !is_mount_point(target.c_str()) &&
         !is_open_here(file);
}

}  // namespace

OutputFile::OutputFile(std::string path, mode_t mode) : path_(std::move(path)) {
  const fs::path target = target_of(path_);
  struct stat old {};
  const bool exists = ::stat(path_.c_str(), &old) == 0;
  if (can_have_temporary_name(target)) {
    if (!exists) {
      file_.emplace(target);
      ::chmod(file_->temporary_path().c_str(), without_umask(mode));
    } else if (S_ISREG(old.st_mode) && can_be_replaced(target, old)) {
      file_.emplace(target);
      // The mode last: a change of the owner removes u+s.
      if (give_owner(file_->temporary_path().c_str(), old))
        ::chmod(file_->temporary_path().c_str(), old.st_mode & 07777);
      else file_.reset();
    }
  }
  if (file_) return;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, mode);
  if (descriptor_ < 0) fail();
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  // A part of an output must not be taken for the whole. It fails for devices and pipes.
  [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, 0);
  ::close(descriptor_);
}

void OutputFile::append(std::string_view bytes) {
  if (file_) return file_->append(bytes);
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::finish() {
  if (file_) return file_->finish();
  // A full disk may be reported only here (NFS, quotas).
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail();
}

void OutputFile::fail() const { throw FileError(path_ + ": cannot be written: " + std::strerror(errno)); }

}  // namespace heapprof::exporter
