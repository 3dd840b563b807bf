// The cycle clock: the virtual counter, which has the same constant rate on all cores. The isb keeps the processor
// from reading the counter before earlier instructions have completed (Arm ARM, D11.1.2). So the time of a free is
// before that of the allocation of the same address on another core.
#pragma once

#include <cstdint>

#include "common/trace_format.h"

namespace heapprof::arch {

inline constexpr Clock kCycleClock = Clock::kCntvct;
inline constexpr const char* kCycleClockSource = "arch_sys_counter";  ///< the kernel's name of this clock source

inline std::uint64_t read_ordered() noexcept {
  std::uint64_t value;
  asm volatile("dmb ish\n\tisb\n\tmrs %0, cntvct_el0" : "=r"(value) : : "memory");
  return value;
}

/// Waits until other cores see this thread's atomic exchange, so that read_ordered() afterwards returns a later time
/// than any that they read before. Its dmb orders memory accesses only; reading the counter is none (Arm ARM, B2.3).
inline void complete_stores() noexcept { asm volatile("dsb ish" : : : "memory"); }

inline bool cycle_clock_invariant() noexcept { return true; }

/// Ticks per second, if the processor reports it; 0: it must be measured.
inline std::uint64_t cycle_clock_rate() noexcept {
  std::uint64_t value;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(value));
  return value;
}

}  // namespace heapprof::arch
