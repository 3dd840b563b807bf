// The cycle clock. read_ordered() does not move before earlier loads and stores have happened as far as
// this core is concerned (rdtscp waits for earlier instructions; Intel SDM vol. 2B, RDTSCP), which is
// what orders a release of an address before its reuse on another core.
#pragma once

#include <cpuid.h>

#include <cstdint>

#include "common/trace_format.h"

namespace heapprof::arch {

inline constexpr Clock kCycleClock = Clock::kTsc;
inline constexpr const char* kCycleClockSource = "tsc";  ///< the kernel's name for a usable one

inline std::uint64_t read_ordered() noexcept {
  std::uint32_t low, high, aux;
  asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux) : : "memory");
  return std::uint64_t{high} << 32 | low;
}

/// The counter runs at one rate whatever the core does (CPUID 0x80000007, EDX bit 8), and rdtscp exists
/// (0x80000001, EDX bit 27).
inline bool cycle_clock_invariant() noexcept {
  std::uint32_t a, b, c, d;
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & 1u << 8) == 0) return false;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (d & 1u << 27) != 0;
}

/// Counts per second where the processor tells; 0: measure it.
inline std::uint64_t cycle_clock_rate() noexcept { return 0; }

}  // namespace heapprof::arch
