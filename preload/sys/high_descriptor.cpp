#include "preload/sys/high_descriptor.h"

#include <sys/resource.h>

#include "preload/sys/kernel.h"

namespace heapprof::sys {

namespace {

constexpr rlim_t kMinLimit = 32;

/// The lowest number in the upper quarter of the limit of open files, or one that no descriptor can have.
int upper_quarter() noexcept {
  rlimit limit{};
  if (failed(call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, word(&limit))) || limit.rlim_cur < kMinLimit) return -1;
  return static_cast<int>(limit.rlim_cur - limit.rlim_cur / 4);
}

}  // namespace

int move_high(int fd) noexcept {
  int high = duplicate_high(fd, 1000);
  if (failed(high)) high = duplicate_high(fd, 100);
  if (failed(high)) high = duplicate_high(fd, upper_quarter());
  if (failed(high)) return -1;
  close(fd);
  return high;
}

}  // namespace heapprof::sys
