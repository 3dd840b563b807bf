// Raw system calls: no errno, no cancellation point, and no libc symbol that the host or another preloaded library
// could have replaced. Returns the kernel's result; -4095 to -1 is a negated errno. System V ABI, x86-64 supplement,
// A.2.1: arguments in rdi, rsi, rdx, r10, r8, r9; rcx and r11 are clobbered.
#pragma once

namespace heapprof::sys {

inline long raw_syscall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) noexcept {
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

}  // namespace heapprof::sys
