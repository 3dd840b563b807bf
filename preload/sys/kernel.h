// The recorder's only way to the kernel: thin names over raw system calls (arch/*/raw_syscall.h), so that
// errno stays the host's, nothing is a cancellation point, and no libc symbol that the host may have
// replaced is called. Results are the kernel's: failed(r) is true for a negated errno.
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

/// How often the host has entered seccomp. From the first time on a system call might kill it, so all of them fail
/// here with ENOSYS instead. 64 bits: it does not wrap around, however often prctl(PR_SET_TSC) succeeds.
extern uint64_t g_forbidden;

inline long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) noexcept {
  if (__atomic_load_n(&g_forbidden, __ATOMIC_RELAXED) != 0) [[unlikely]] return -38;
  return raw_syscall(number, a, b, c, d, e, f);
}

inline bool forbidden() noexcept { return __atomic_load_n(&g_forbidden, __ATOMIC_RELAXED) != 0; }

constexpr bool failed(long result) noexcept { return result < 0 && result >= -4095; }
inline bool failed(const void* result) noexcept { return failed(reinterpret_cast<long>(result)); }

inline long word(const void* pointer) noexcept { return reinterpret_cast<long>(pointer); }

constexpr long kInterrupted = -4;  ///< EINTR

/// The same for calls that a signal of the host may interrupt: on FUSE, for example, every call that takes a file.
/// Repeats an interrupted call, but not for ever: signals may come faster than the kernel gets on.
long call_again(long number, long a, long b, long c, long d = 0, long e = 0) noexcept;

inline int open(const char* path, int flags, int mode = 0) noexcept {
  return static_cast<int>(call_again(SYS_openat, AT_FDCWD, word(path), flags, mode));
}
inline void close(int fd) noexcept { call(SYS_close, fd); }  // closed, also when it was interrupted
inline void unlink(const char* path) noexcept { call_again(SYS_unlinkat, AT_FDCWD, word(path), 0); }

// Results may be short.
inline long read(int fd, void* buffer, size_t bytes) noexcept {
  return call_again(SYS_read, fd, word(buffer), static_cast<long>(bytes));
}
inline long write(int fd, const void* buffer, size_t bytes) noexcept {
  return call_again(SYS_write, fd, word(buffer), static_cast<long>(bytes));
}
inline long pread(int fd, void* buffer, size_t bytes, uint64_t offset) noexcept {
  return call_again(SYS_pread64, fd, word(buffer), static_cast<long>(bytes), static_cast<long>(offset));
}
inline long pwrite(int fd, const void* buffer, size_t bytes, uint64_t offset) noexcept {
  return call_again(SYS_pwrite64, fd, word(buffer), static_cast<long>(bytes), static_cast<long>(offset));
}
inline long readlink(const char* path, char* buffer, size_t bytes) noexcept {
  return call(SYS_readlinkat, AT_FDCWD, word(path), word(buffer), static_cast<long>(bytes));
}
inline long mkdir(const char* path, int mode) noexcept { return call(SYS_mkdirat, AT_FDCWD, word(path), mode); }
/// kInterrupted: a signal came first, and nothing was reserved.
inline long fallocate(int fd, uint64_t offset, uint64_t bytes) noexcept {
  return call(SYS_fallocate, fd, 0, static_cast<long>(offset), static_cast<long>(bytes));
}

/// The same descriptor at or above `lowest`, close-on-exec; where hosts do not look for it.
inline int duplicate_high(int fd, int lowest) noexcept {
  return static_cast<int>(call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest));
}

/// Device and inode: which file a descriptor or a path is. One size and layout on every architecture
/// and libc (statx), unlike stat.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
inline bool identify(int fd, FileIdentity& identity) noexcept {
  struct statx status;
  const long result = call_again(SYS_statx, fd, word(""), AT_EMPTY_PATH, STATX_INO, word(&status));
  if (failed(result)) return false;
  identity = {uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor, status.stx_ino};
  return true;
}
inline bool identify(const char* path, FileIdentity& identity) noexcept {
  struct statx status;
  if (failed(call_again(SYS_statx, AT_FDCWD, word(path), 0, STATX_INO, word(&status)))) return false;
  identity = {uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor, status.stx_ino};
  return true;
}

inline void* map(void* address, size_t bytes, int protection, int flags, int fd, uint64_t offset) noexcept {
  return reinterpret_cast<void*>(call(SYS_mmap, word(address), static_cast<long>(bytes), protection,
                                             flags, fd, static_cast<long>(offset)));
}
inline void unmap(void* address, size_t bytes) noexcept {
  call(SYS_munmap, word(address), static_cast<long>(bytes));
}
/// Moves private memory to where something else is mapped, which goes.
inline long move_over(void* from, size_t bytes, void* to) noexcept {
  return call(SYS_mremap, word(from), static_cast<long>(bytes), static_cast<long>(bytes),
              MREMAP_MAYMOVE | MREMAP_FIXED, word(to));
}
inline long advise(void* address, size_t bytes, int advice) noexcept {
  return call(SYS_madvise, word(address), static_cast<long>(bytes), advice);
}
/// Zeroed private memory, touched as it is used; null when there is none.
inline void* map_private(size_t bytes) noexcept {
  void* memory = map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return failed(memory) ? nullptr : memory;
}

constexpr uint64_t signal_bit(int signal) noexcept { return uint64_t{1} << (signal - 1); }

/// Every signal but those that report a fault of the thread's own: the kernel kills a process that blocks one of them
/// when the fault happens.
constexpr uint64_t kAllButFaults = ~(signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) |
                                     signal_bit(SIGFPE) | signal_bit(SIGTRAP) | signal_bit(SIGSYS));

/// Holds back signals for the time of a call: those that the call may raise in this thread, so that the host never
/// sees them, and those that would interrupt it.
///
/// Where the signals were blocked, finish() makes its system calls even if another thread has raised g_forbidden
/// meanwhile: a thread that kept its signals blocked would hang the host (setuid() waits for a signal handler of each
/// thread), and a signal that stayed pending would end it. Strict mode holds for one thread, and this thread enters
/// it neither here nor in a handler, which is why users hold kAllButFaults or nothing. What remains is a filter that
/// another thread installs in all (SECCOMP_FILTER_FLAG_TSYNC) in this moment: libc itself needs rt_sigprocmask, to
/// start threads for example, and rt_sigtimedwait is called only if the signal was raised.
class SignalsHeld {
 public:
  /// 0 holds none and costs nothing. When the kernel may not be asked, none are held either.
  explicit SignalsHeld(uint64_t signals) noexcept : signals_(signals) {
    if (signals_ != 0 &&
        failed(call(SYS_rt_sigprocmask, SIG_BLOCK, word(&signals_), word(&before_), sizeof signals_)))
      signals_ = 0;
  }
  /// `raised`: the signal that the call raised, if any (its signal_bit): takes it away, unless the host had it
  /// blocked before and waits for its own; then one too many stays pending, which is what the failing call means to
  /// it anyway.
  void finish(uint64_t raised) noexcept {
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
/// Whether any thread of any process has this number. Not tgkill: a child that shares our memory (vfork) is another
/// process, and a number that has gone to a stranger does no harm.
inline bool thread_exists(int thread) noexcept {
  return call(SYS_tkill, thread, 0) != -3;  // ESRCH
}
/// The calling thread's name, at most 15 bytes and NUL.
inline void thread_name(char (&name)[16]) noexcept { call(SYS_prctl, PR_GET_NAME, word(name)); }

inline uint64_t clock_ns(int clock) noexcept {
  timespec time{};
  call(SYS_clock_gettime, clock, word(&time));
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

/// Fills `bytes` from the kernel's generator; false on a kernel without it.
inline bool random(void* bytes, size_t size) noexcept {
  return call(SYS_getrandom, word(bytes), static_cast<long>(size), 1 /* GRND_NONBLOCK */) ==
         static_cast<long>(size);
}

/// Reads a small file (of /proc or /sys) whole, up to `size - 1` bytes, and ends it with NUL.
/// Returns its length; 0 when it cannot be read.
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
