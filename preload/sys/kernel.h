// System calls of the recorder: thin wrappers of raw system calls (arch/*/raw_syscall.h). The recorder calls the
// kernel through this file only, so that errno is not changed, no call is a cancellation point, and no libc symbol is
// called that the host may have replaced. The results are the kernel's: failed(r) is true for a negated errno.
//
// All functions are async-signal-safe and may be called from any thread.
#pragma once

#include <fcntl.h>
#include <linux/stat.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "preload/arch/arch.h"

namespace heapprof::sys {

/// How often the host has entered seccomp or disabled its cycle clock (prctl(PR_SET_TSC)). While it is
/// not 0 a system call might kill the host, so every call here fails with ENOSYS instead. It has 64 bits because
/// prctl(PR_SET_TSC) may succeed any number of times.
extern uint64_t g_forbidden;

inline long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) noexcept {
  if (__atomic_load_n(&g_forbidden, __ATOMIC_RELAXED) != 0) [[unlikely]]
    return -38;  // ENOSYS
  return raw_syscall(number, a, b, c, d, e, f);
}

inline bool forbidden() noexcept { return __atomic_load_n(&g_forbidden, __ATOMIC_RELAXED) != 0; }

constexpr bool failed(long result) noexcept { return result < 0 && result >= -4095; }
inline bool failed(const void* result) noexcept { return failed(reinterpret_cast<long>(result)); }

inline long word(const void* pointer) noexcept { return reinterpret_cast<long>(pointer); }

constexpr long kInterrupted = -4;  ///< EINTR

/// As call(), and repeats the call while a signal of the host interrupts it (EINTR). On FUSE, for example, every call
/// that takes a file can be interrupted. Gives up after 100 attempts: signals may arrive faster than the call makes
/// progress.
long retry_call(long number, long a, long b, long c, long d = 0, long e = 0) noexcept;

inline int open(const char* path, int flags, int mode = 0) noexcept {
  return static_cast<int>(retry_call(SYS_openat, AT_FDCWD, word(path), flags, mode));
}
inline void close(int fd) noexcept { call(SYS_close, fd); }  // Linux closes it even when it returns EINTR
inline void unlink(const char* path) noexcept { retry_call(SYS_unlinkat, AT_FDCWD, word(path), 0); }

// These four may transfer fewer bytes than requested.
inline long read(int fd, void* buffer, size_t bytes) noexcept {
  return retry_call(SYS_read, fd, word(buffer), static_cast<long>(bytes));
}
inline long write(int fd, const void* buffer, size_t bytes) noexcept {
  return retry_call(SYS_write, fd, word(buffer), static_cast<long>(bytes));
}
inline long pread(int fd, void* buffer, size_t bytes, uint64_t offset) noexcept {
  return retry_call(SYS_pread64, fd, word(buffer), static_cast<long>(bytes), static_cast<long>(offset));
}
inline long pwrite(int fd, const void* buffer, size_t bytes, uint64_t offset) noexcept {
  return retry_call(SYS_pwrite64, fd, word(buffer), static_cast<long>(bytes), static_cast<long>(offset));
}
inline long readlink(const char* path, char* buffer, size_t bytes) noexcept {
  return call(SYS_readlinkat, AT_FDCWD, word(path), word(buffer), static_cast<long>(bytes));
}
inline long mkdir(const char* path, int mode) noexcept { return call(SYS_mkdirat, AT_FDCWD, word(path), mode); }
/// Returns kInterrupted when a signal arrived first; nothing was reserved then.
inline long fallocate(int fd, uint64_t offset, uint64_t bytes) noexcept {
  return call(SYS_fallocate, fd, 0, static_cast<long>(offset), static_cast<long>(bytes));
}

/// Duplicates `fd` to a number of at least `lowest`, close-on-exec. Hosts rarely close or reuse high numbers.
inline int duplicate_high(int fd, int lowest) noexcept {
  return static_cast<int>(call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest));
}

/// Device and inode: they identify the file of a descriptor or path. Read by statx, which has one layout on every
/// architecture and libc, unlike stat.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
inline bool identify(int fd, FileIdentity& identity) noexcept {
  struct statx status;
  const long result = retry_call(SYS_statx, fd, word(""), AT_EMPTY_PATH, STATX_INO, word(&status));
  if (failed(result)) return false;
  identity = {uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor, status.stx_ino};
  return true;
}
inline bool identify(const char* path, FileIdentity& identity) noexcept {
  struct statx status;
  if (failed(retry_call(SYS_statx, AT_FDCWD, word(path), 0, STATX_INO, word(&status)))) return false;
  identity = {uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor, status.stx_ino};
  return true;
}

inline void* map(void* address, size_t bytes, int protection, int flags, int fd, uint64_t offset) noexcept {
  return reinterpret_cast<void*>(
      call(SYS_mmap, word(address), static_cast<long>(bytes), protection, flags, fd, static_cast<long>(offset)));
}
inline void unmap(void* address, size_t bytes) noexcept { call(SYS_munmap, word(address), static_cast<long>(bytes)); }
/// Moves the private mapping `from` to the address `to` and replaces what is mapped there.
inline long remap_over(void* from, size_t bytes, void* to) noexcept {
  return call(SYS_mremap, word(from), static_cast<long>(bytes), static_cast<long>(bytes),
              MREMAP_MAYMOVE | MREMAP_FIXED, word(to));
}
inline long advise(void* address, size_t bytes, int advice) noexcept {
  return call(SYS_madvise, word(address), static_cast<long>(bytes), advice);
}
/// Faults in memory of which every page will be written: that takes less time than a fault, or two, for each page.
/// Does nothing before Linux 5.14, nor where pages have more than 4 KB and `address` is not at the beginning of one.
inline void populate(void* address, size_t bytes) noexcept {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  const uintptr_t offset = reinterpret_cast<uintptr_t>(address) % 4096;
  advise(static_cast<char*>(address) - offset, bytes + offset, kPopulateWrite);
}
/// Maps zeroed private memory for the recorder, without reserving it, and lists it (own_mappings.h). Returns null
/// when there is none.
void* map_private(size_t bytes) noexcept;
/// Unmaps memory of map_private().
void unmap_private(void* memory, size_t bytes) noexcept;

constexpr uint64_t signal_bit(int signal) noexcept { return uint64_t{1} << (signal - 1); }

/// Every signal except those that report a fault of the thread itself: when such a fault happens while its signal is
/// blocked, the kernel kills the process.
constexpr uint64_t kAllButFaults = ~(signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) |
                                     signal_bit(SIGFPE) | signal_bit(SIGTRAP) | signal_bit(SIGSYS));

/// Blocks signals around a system call: the signals that the call may raise in this thread, which the host must not
/// receive, and the signals that would interrupt it.
///
/// If the constructor blocked signals, restore() makes its system calls even if another thread has raised g_forbidden
/// since. A thread whose signals stay blocked would hang the host (setuid() waits for a signal handler of each
/// thread), and a signal that stays pending would kill it. This is safe in seccomp's strict mode: that mode applies
/// to one thread, and this thread can enter it neither here nor in a handler, because callers block nearly all
/// signals (kAllButFaults) or none. One case remains: another thread installs a filter in all threads at this moment
/// (SECCOMP_FILTER_FLAG_TSYNC). Such a filter normally permits rt_sigprocmask, because libc itself needs it to start
/// threads, for example; rt_sigtimedwait is called only if the signal was raised.
class BlockedSignals {
 public:
  /// Blocks `signals`. 0 blocks none and costs nothing. Blocks none either when system calls are forbidden.
  explicit BlockedSignals(uint64_t signals) noexcept : signals_(signals) {
    if (signals_ != 0 &&
        failed(call(SYS_rt_sigprocmask, SIG_BLOCK, word(&signals_), word(&before_), sizeof signals_)))
      signals_ = 0;
  }
  /// Consumes the signal that the call raised and restores the signal mask. `raised`: the signal_bit of that signal,
  /// 0 for none. If the host had blocked that signal itself, it stays pending, as after a failing call of the host.
  void restore(uint64_t raised) noexcept {
    if (signals_ == 0) return;
    const uint64_t ours = raised & signals_ & ~before_;
    if (ours != 0) {
      timespec now{};
      raw_syscall(SYS_rt_sigtimedwait, word(&ours), 0, word(&now), sizeof ours);
    }
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, word(&before_), 0, sizeof before_);
  }

 private:
  uint64_t signals_;
  uint64_t before_ = 0;
};

inline int process_id() noexcept { return static_cast<int>(call(SYS_getpid)); }
inline int parent_process_id() noexcept { return static_cast<int>(call(SYS_getppid)); }
inline int thread_id() noexcept { return static_cast<int>(call(SYS_gettid)); }
/// Returns whether any thread of any process has this id. tgkill would miss the threads of a child that shares
/// this memory (vfork), which is another process. An id that another process has reused does no harm.
inline bool thread_exists(int thread) noexcept {
  return call(SYS_tkill, thread, 0) != -3;  // ESRCH
}
/// The number of this process's threads; 0: it cannot be read.
uint32_t thread_count() noexcept;
/// The address of the vDSO; 0: the kernel or an emulator provides none. Only the first call, at the recorder's start,
/// asks getauxval: it sets errno where there is none.
uint64_t vdso_address() noexcept;
/// Reads the calling thread's name: at most 15 bytes and a NUL.
inline void thread_name(char (&name)[16]) noexcept { call(SYS_prctl, PR_GET_NAME, word(name)); }

inline uint64_t clock_ns(int clock) noexcept {
  timespec time{};
  call(SYS_clock_gettime, clock, word(&time));
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

/// Reads the host's name; empty: it cannot be read. uname would be faster, but few programs call it: a seccomp filter
/// that a program has inherited may kill it there. So it is called only if the file in /proc cannot be read. Only one
/// thread may call this.
void host_name(char (&name)[66]) noexcept;

/// Fills `bytes` with random bytes of the kernel. Returns false on a kernel without getrandom, or before its
/// generator is ready.
inline bool random(void* bytes, size_t size) noexcept {
  return call(SYS_getrandom, word(bytes), static_cast<long>(size), 1 /* GRND_NONBLOCK */) == static_cast<long>(size);
}

/// Reads up to `size - 1` bytes of a small file (of /proc or /sys) and appends a NUL. Returns the length; 0 when the
/// file cannot be read.
inline size_t read_file(const char* path, char* buffer, size_t size) noexcept {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return buffer[0] = '\0', 0;
  size_t length = 0;
  while (length + 1 < size) {
    const long got = read(fd, buffer + length, size - 1 - length);
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  close(fd);
  buffer[length] = '\0';
  return length;
}

}  // namespace heapprof::sys
