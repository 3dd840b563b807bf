// The cycle clock: the time stamp counter. rdtscp waits until earlier instructions of this core have completed (Intel
// SDM vol. 2B, RDTSCP). So the time of a free is before that of the allocation of the same address on another core.
#pragma once

#include <cpuid.h>

#include <cstdint>

#include "common/trace_format.h"

namespace heapprof::arch {

inline constexpr Clock kCycleClock = Clock::kTsc;
inline constexpr const char* kCycleClockSource = "tsc";  ///< the kernel's name of this clock source

inline std::uint64_t read_ordered() noexcept {
  std::uint32_t low, high, aux;
  asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux) : : "memory");
  return std::uint64_t{high} << 32 | low;
}

/// Waits until other cores see this thread's atomic exchange, so that read_ordered() afterwards returns a later time
/// than any that they read before. Locked instructions wait for that themselves (Intel SDM vol. 3A, 9.2.2).
inline void complete_stores() noexcept {}

/// Whether the counter has a constant rate in all power states (CPUID 0x80000007, EDX bit 8), and rdtscp exists
/// (0x80000001, EDX bit 27). In a virtual machine, each CPUID takes some microseconds, so the last leaf is asked for
/// once.
inline bool cycle_clock_invariant() noexcept {
  if (__get_cpuid_max(0x80000000, nullptr) < 0x80000007) return false;
  std::uint32_t a, b, c, d;
  __cpuid(0x80000007, a, b, c, d);
  if ((d & 1u << 8) == 0) return false;
  __cpuid(0x80000001, a, b, c, d);
  return (d & 1u << 27) != 0;
}

/// Ticks per second, if the processor reports it; 0: it must be measured.
inline std::uint64_t cycle_clock_rate() noexcept { return 0; }

}  // namespace heapprof::arch
