// prctl and syscall: watched for what forbids the recorder its own system calls or the cycle clock
// (design 2.5), and for mappings made by number.
//
// Both hooks leave by a jump, without a frame of their own: syscall(SYS_clone, ...) returns twice, and the
// child may use up the stack below the caller before the parent returns. The test of the built library sees
// that they contain no call.
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

/// What a call of prctl or seccomp would take from the recorder if it succeeded.
enum class Loss { kNothing, kSystemCalls, kSystemCallsAndClock };

/// Hosts probe for filters by setting none (libseccomp, src/system.c; seccomp(2), EFAULT): that takes nothing.
constexpr Loss loss_by_seccomp(bool strict, bool has_filter) noexcept {
  return strict ? Loss::kSystemCallsAndClock : has_filter ? Loss::kSystemCalls : Loss::kNothing;
}

Loss loss_by_prctl(int option, unsigned long first, unsigned long second) noexcept {
  if (option == PR_SET_SECCOMP) return loss_by_seccomp(first == SECCOMP_MODE_STRICT, second != 0);
  if (option == PR_SET_TSC && first == PR_TSC_SIGSEGV) return Loss::kSystemCallsAndClock;
  return Loss::kNothing;
}

/// The recorder is told before the call, as afterwards is too late; and told again when the kernel refused.
template <typename Call>
[[gnu::always_inline]] inline auto call_with_loss(Loss loss, Call&& call) noexcept {
  if (loss == Loss::kNothing) return call();
  const bool clock = loss == Loss::kSystemCallsAndClock;
  find_unwinding_library();
  recorder::restrict_system_calls(clock);
  const auto result = call();
  if (result < 0) recorder::restriction_refused(clock);
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

/// Jumped to, so that its frame stands where the hook's would.
[[gnu::noinline]] long watched_call(long number, long a, long b, long c, long d, long e, long f) noexcept {
  const EntryRegisters entry = entry_registers();
  const auto call = [=] { return real().syscall(number, a, b, c, d, e, f); };
  const auto bytes = [](long value) { return static_cast<std::size_t>(value); };
  const auto flags = [](long value) { return static_cast<int>(value); };
  switch (number) {
    case SYS_mmap:
      return reinterpret_cast<long>(
          record_mmap(bytes(b), flags(c), flags(d), entry, [&] { return pointer(call()); }));
    case SYS_munmap:
      return record_munmap(pointer(a), bytes(b), entry, [&] { return static_cast<int>(call()); });
    case SYS_mremap:
      return reinterpret_cast<long>(
          record_mremap(pointer(a), bytes(b), bytes(c), flags(d), entry, [&] { return pointer(call()); }));
    case SYS_brk: {
      // The kernel answers where the break is now, whether it moved or not; libc's own idea of it is another matter.
      const long before = sys::call(SYS_brk);
      const long after = call();
      if (after != before && !sys::failed(before)) recorder::break_moved(pointer(before), pointer(after), entry);
      return after;
    }
    case SYS_prctl:
      return call_with_loss(
          loss_by_prctl(static_cast<int>(a), static_cast<unsigned long>(b), static_cast<unsigned long>(c)), call);
    default:  // SYS_seccomp
      return call_with_loss(a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER
                                ? loss_by_seccomp(a == SECCOMP_SET_MODE_STRICT, c != 0)
                                : Loss::kNothing,
                            call);
  }
}

/// Likewise.
[[gnu::noinline]] int watched_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                                    unsigned long d) noexcept {
  return call_with_loss(loss_by_prctl(option, a, b), [=] { return real().prctl(option, a, b, c, d); });
}

}  // namespace

// Variadic in sys/prctl.h and unistd.h: what was not passed holds anything, and the real one passes it on.
HEAPPROF_HOOK(int, prctl, (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)) {
  if (option == PR_SET_SECCOMP || option == PR_SET_TSC) [[unlikely]] return watched_prctl(option, a, b, c, d);
  return real().prctl(option, a, b, c, d);
}

HEAPPROF_HOOK(long, syscall, (long number, long a, long b, long c, long d, long e, long f)) {
  if (is_watched(number)) [[unlikely]] return watched_call(number, a, b, c, d, e, f);
  return real().syscall(number, a, b, c, d, e, f);
}

}  // namespace heapprof::hooks
