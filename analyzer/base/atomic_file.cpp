#include "analyzer/base/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "analyzer/base/output_target.h"

namespace heapprof {
namespace {

constexpr std::string_view kTemporaryMark = ".new-";
constexpr std::string_view kRandomPart = "XXXXXX";  // mkostemp(3) replaces it
static_assert(kTemporaryMark.size() + kRandomPart.size() == AtomicFile::kTemporaryBytes);

[[noreturn]] void refuse(const std::string& path, int error) {
  throw FileError(path + ": cannot be written: " + std::strerror(error));
}

/// The file that gets the name of an output which cannot be written in place.
std::string replaceable_target_of(const std::string& path) {
  const std::string target = target_of(path).string();
  struct stat named {
  }, found{};
  if (::stat(path.c_str(), &named) != 0) {
    if (errno != ENOENT) refuse(path, errno);
    return target;
  }
  if (S_ISDIR(named.st_mode)) refuse(path, EISDIR);
  // What /dev/stdout leads to can be a file without a name.
  if (!S_ISREG(named.st_mode) || ::lstat(target.c_str(), &found) != 0 || !is_same_file(named, found))
    throw FileError(path + ": is not a regular file; this output needs one");
  return target;
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(path_ + std::string(kTemporaryMark) + std::string(kRandomPart)) {
  descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail();
}

AtomicFile::AtomicFile(const std::string& path, mode_t mode) : AtomicFile(replaceable_target_of(path)) {
  mode_ = mode;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail() const { refuse(path_, errno); }

void AtomicFile::append(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    bytes_ += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::append(std::string_view bytes) {
  append(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

void AtomicFile::give_owner_and_mode() const {
  const char* const path = temporary_.c_str();
  struct stat old {};
  if (::stat(path_.c_str(), &old) != 0) {
    ::chmod(path, without_umask(*mode_));
    return;
  }
  // The mode last: a change of the owner removes u+s. If the owner cannot be kept, the group's permissions would go
  // to another group.
  constexpr mode_t kAll = 07777, kWithoutGroup = 0707;
  ::chmod(path, old.st_mode & (give_owner(path, old) ? kAll : kWithoutGroup));
}

void AtomicFile::finish() {
  if (mode_) give_owner_and_mode();
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary_.c_str());
  errno = error;
  fail();
}

bool AtomicFile::is_temporary(std::string_view name) noexcept {
  return name.size() >= kTemporaryBytes && name.substr(name.size() - kTemporaryBytes).starts_with(kTemporaryMark);
}

}  // namespace heapprof
