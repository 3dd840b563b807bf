// Raw system calls: no errno, no cancellation point, and no libc symbol that the host or another preloaded library
// could have replaced. Returns the kernel's result; -4095 to -1 is a negated errno. Linux arm64 convention: number in
// x8, arguments in x0..x5, result in x0.
#pragma once

namespace heapprof::sys {

inline long raw_syscall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) noexcept {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}

}  // namespace heapprof::sys
