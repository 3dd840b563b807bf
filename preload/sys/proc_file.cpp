#include "preload/sys/proc_file.h"

#include <cerrno>

namespace heapprof::sys {

int ProcFile::open(const char* path) noexcept {
  close();
  const int low = sys::open(path, O_RDONLY | O_CLOEXEC);
  if (failed(low)) return low;
  int high = duplicate_high(low, 1000);
  if (failed(high)) high = duplicate_high(low, 100);
  sys::close(low);
  if (failed(high)) return -EMFILE;  // the limit of open files is lower (EINVAL), or reached
  if (!identify(high, identity_)) {
    sys::close(high);
    return -EBADF;
  }
  fd_ = high;
  return 0;
}

void ProcFile::close() noexcept {
  const int fd = descriptor();
  if (fd >= 0) sys::close(fd);
  fd_ = -1;
}

int ProcFile::descriptor() const noexcept {
  FileIdentity now;
  return fd_ >= 0 && identify(fd_, now) && now == identity_ ? fd_ : -1;
}

}  // namespace heapprof::sys
