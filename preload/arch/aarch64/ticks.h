// The cycle clock: the virtual counter, one rate on all cores by architecture. The isb keeps the read
// from moving before earlier instructions (Arm ARM, D11.1.2), which is what orders a release of an
// address before its reuse on another core.
#pragma once

#include <cstdint>

#include "common/trace_format.h"

namespace heapprof::arch {

inline constexpr Clock kCycleClock = Clock::kCntvct;
inline constexpr const char* kCycleClockSource = "arch_sys_counter";  ///< the kernel's name for a usable one

inline std::uint64_t read_ordered() noexcept {
  std::uint64_t value;
  asm volatile("dmb ish\n\tisb\n\tmrs %0, cntvct_el0" : "=r"(value) : : "memory");
  return value;
}

inline bool cycle_clock_invariant() noexcept { return true; }

/// Counts per second where the processor tells; 0: measure it.
inline std::uint64_t cycle_clock_rate() noexcept {
  std::uint64_t value;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(value));
  return value;
}

}  // namespace heapprof::arch
