// Hooks of prctl and syscall. They detect calls after which the recorder must not use system calls or the cycle clock
// (seccomp, PR_SET_TSC), and record mappings that the program requests by system call number.
//
// Both hooks end in a jump (a tail call) and have no frame of their own: syscall(SYS_clone, ...) returns twice, and
// the child may overwrite the stack below the caller before the parent returns. tests/abi checks that they contain
// no call.
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "preload/hooks/hook.h"
#include "preload/hooks/jit_frames.h"
#include "preload/hooks/mappings.h"
#include "preload/sys/kernel.h"

namespace heapprof::hooks {

using arch::entry_registers;
using arch::EntryRegisters;

namespace {

/// What the recorder can no longer use after a call of prctl or seccomp has succeeded.
enum class Loss { kNothing, kSystemCalls, kSystemCallsAndClock };

/// A null filter is a probe for seccomp support and restricts nothing (libseccomp, src/system.c; seccomp(2), EFAULT).
constexpr Loss loss_by_seccomp(bool strict, bool has_filter) noexcept {
  return strict ? Loss::kSystemCallsAndClock : has_filter ? Loss::kSystemCalls : Loss::kNothing;
}

Loss loss_by_prctl(int option, unsigned long first, unsigned long second) noexcept {
  if (option == PR_SET_SECCOMP) return loss_by_seccomp(first == SECCOMP_MODE_STRICT, second != 0);
  if (option == PR_SET_TSC && first == PR_TSC_SIGSEGV) return Loss::kSystemCallsAndClock;
  return Loss::kNothing;
}

constexpr bool is_refused(long result) noexcept { return result < 0; }

/// Notifies the recorder before the call, while it can still make system calls to prepare, and again if the kernel
/// refuses the call, which `refused` finds in the result.
template <typename Call>
[[gnu::always_inline]] inline auto call_with_loss(Loss loss, Call&& call,
                                                  bool (*refused)(long) noexcept = is_refused) noexcept {
  if (loss == Loss::kNothing) return call();
  const bool clock = loss == Loss::kSystemCallsAndClock;
  find_unwinding_library();
  recorder::restrict_system_calls(clock);
  const auto result = call();
  if (refused(result)) recorder::restriction_refused(clock);
  return result;
}

constexpr bool is_watched(long number) noexcept {
  return number == SYS_seccomp || number == SYS_prctl || number == SYS_mmap || number == SYS_munmap ||
         number == SYS_mremap || number == SYS_brk;
}

template <typename Integer>
void* pointer(Integer value) noexcept {
  return reinterpret_cast<void*>(value);
}

/// The hook jumps here, so this function's frame takes the place of the hook's.
[[gnu::noinline]] long watched_call(long number, long a, long b, long c, long d, long e, long f) noexcept {
  const EntryRegisters entry = entry_registers();
  const auto call = [=] { return real::functions().syscall(number, a, b, c, d, e, f); };
  const auto bytes = [](long value) { return static_cast<std::size_t>(value); };
  const auto flags = [](long value) { return static_cast<int>(value); };
  switch (number) {
    case SYS_mmap:
      return reinterpret_cast<long>(
          record_mmap(pointer(a), bytes(b), flags(c), flags(d), entry, [&] { return pointer(call()); }));
    case SYS_munmap: return record_munmap(pointer(a), bytes(b), entry, [&] { return static_cast<int>(call()); });
    case SYS_mremap:
      return reinterpret_cast<long>(record_mremap(pointer(a), bytes(b), bytes(c), flags(d), pointer(e), entry,
                                                  [&] { return pointer(call()); }));
    case SYS_brk: {
      // The kernel returns the current break, whether it moved or not. libc's own record of the break may differ.
      const long before = sys::call(SYS_brk);
      const long after = call();
      if (after != before && !sys::failed(before)) recorder::break_moved(pointer(before), pointer(after), entry);
      return after;
    }
    case SYS_prctl:
      return call_with_loss(
          loss_by_prctl(static_cast<int>(a), static_cast<unsigned long>(b), static_cast<unsigned long>(c)), call);
    default: {  // SYS_seccomp
      const Loss loss = a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER
                            ? loss_by_seccomp(a == SECCOMP_SET_MODE_STRICT, c != 0)
                            : Loss::kNothing;
      // SECCOMP_FILTER_FLAG_TSYNC: the result is the id of a thread that has another filter, and nothing has been
      // installed (seccomp(2)). With a listener, it is a descriptor.
      constexpr long kResultIsThread = SECCOMP_FILTER_FLAG_TSYNC, kResultIsListener = 1 << 3;
      if ((b & (kResultIsThread | kResultIsListener)) == kResultIsThread)
        return call_with_loss(loss, call, [](long result) noexcept { return result != 0; });
      return call_with_loss(loss, call);
    }
  }
}

/// The prctl hook jumps here.
[[gnu::noinline]] int watched_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                                    unsigned long d) noexcept {
  return call_with_loss(loss_by_prctl(option, a, b), [=] { return real::functions().prctl(option, a, b, c, d); });
}

}  // namespace

// Both are variadic in libc's headers. Arguments that the caller omitted have arbitrary values; the real functions
// pass them to the kernel, which ignores them.
HEAPPROF_HOOK(int, prctl, (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)) {
  if (option == PR_SET_SECCOMP || option == PR_SET_TSC) [[unlikely]]
    return watched_prctl(option, a, b, c, d);
  return real::functions().prctl(option, a, b, c, d);
}

HEAPPROF_HOOK(long, syscall, (long number, long a, long b, long c, long d, long e, long f)) {
  if (is_watched(number)) [[unlikely]]
    return watched_call(number, a, b, c, d, e, f);
  return real::functions().syscall(number, a, b, c, d, e, f);
}

}  // namespace heapprof::hooks
