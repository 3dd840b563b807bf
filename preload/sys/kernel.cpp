#include "preload/sys/kernel.h"

#include <sys/auxv.h>
#include <sys/utsname.h>

namespace heapprof::sys {

constinit uint64_t g_forbidden = 0;

long retry_call(long number, long a, long b, long c, long d, long e) noexcept {
  constexpr int kMaxAttempts = 100;
  long result = kInterrupted;
  for (int i = 0; i < kMaxAttempts && result == kInterrupted; ++i) result = call(number, a, b, c, d, e);
  return result;
}

/// The directory /proc/self/task has two links, and one more for each thread. Not inlined, so that its buffer does
/// not enlarge the callers' frames.
[[gnu::noinline]] uint32_t thread_count() noexcept {
  struct statx status;
  if (failed(call(SYS_statx, AT_FDCWD, word("/proc/self/task"), 0, STATX_NLINK, word(&status))) ||
      status.stx_nlink < 2)
    return 0;
  return status.stx_nlink - 2;
}

void host_name(char (&name)[66]) noexcept {
  // At most 64 bytes (__NEW_UTS_LEN), a line break and a NUL.
  const size_t length = read_file("/proc/sys/kernel/hostname", name, sizeof name);
  if (length != 0) {
    if (name[length - 1] == '\n') name[length - 1] = '\0';
    return;
  }
  static utsname names;
  static_assert(sizeof names.nodename <= sizeof name);
  if (!failed(call(SYS_uname, word(&names)))) __builtin_memcpy(name, names.nodename, sizeof names.nodename);
}

uint64_t vdso_address() noexcept {
  constexpr uint64_t kUnknown = 1;
  static constinit uint64_t address = kUnknown;
  uint64_t result = __atomic_load_n(&address, __ATOMIC_RELAXED);
  if (result == kUnknown) {
    result = getauxval(AT_SYSINFO_EHDR);
    __atomic_store_n(&address, result, __ATOMIC_RELAXED);
  }
  return result;
}

}  // namespace heapprof::sys
