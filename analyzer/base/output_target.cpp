#include "analyzer/base/output_target.h"

#include <system_error>
#include <unistd.h>

namespace heapprof {

namespace fs = std::filesystem;

fs::path target_of(fs::path path) {
  constexpr int kMaxLinks = 40;  // like the kernel
  std::error_code error;
  for (int links = 0; links < kMaxLinks && fs::is_symlink(path, error); ++links) {
    const fs::path link = fs::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / link;
  }
  return path;
}

bool is_same_file(const struct stat& a, const struct stat& b) noexcept {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool give_owner(const char* path, const struct stat& owned) noexcept {
  struct stat status {};
  if (::stat(path, &status) != 0) return false;
  return (status.st_uid == owned.st_uid && status.st_gid == owned.st_gid) ||
         ::chown(path, owned.st_uid, owned.st_gid) == 0;
}

mode_t without_umask(mode_t mode) noexcept {
  const mode_t hidden = ::umask(0);
  ::umask(hidden);
  return mode & ~hidden;
}

}  // namespace heapprof
