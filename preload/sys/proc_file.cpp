#include "preload/sys/proc_file.h"

#include <cerrno>

#include "preload/sys/high_descriptor.h"

namespace heapprof::sys {

int ProcFile::open(const char* path) noexcept {
  close();
  const int low = sys::open(path, O_RDONLY | O_CLOEXEC);
  if (failed(low)) return low;
  const int high = move_high(low);
  if (high < 0) {
    sys::close(low);
    return -EMFILE;
  }
  if (!identify(high, identity_)) {
    sys::close(high);
    return -EBADF;
  }
  __atomic_store_n(&fd_, high, __ATOMIC_RELEASE);
  return 0;
}

void ProcFile::close() noexcept {
  const int fd = descriptor();
  __atomic_store_n(&fd_, -1, __ATOMIC_RELEASE);
  if (fd >= 0) sys::close(fd);
}

int ProcFile::descriptor() const noexcept {
  const int fd = __atomic_load_n(&fd_, __ATOMIC_ACQUIRE);
  FileIdentity now;
  return fd >= 0 && identify(fd, now) && now == identity_ ? fd : -1;
}

}  // namespace heapprof::sys
