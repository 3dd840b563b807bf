// The clock of events (docs/concepts/ordering.md): the processor's cycle counter where the kernel itself uses it as
// its clock source, else CLOCK_MONOTONIC in nanoseconds.
//
// now() may be called from any thread and from signal handlers. It makes no system call and keeps errno.
#pragma once

#include <cstdint>

#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/recorder/clock/time_types.h"

namespace heapprof::recorder {

class TickClock {
 public:
  /// Chooses the clock and sets time 0 to the time of this call. Call it while no other thread uses the clock.
  void start() noexcept;

  /// The current time. It is read after all earlier instructions of this thread have completed (arch/*/ticks.h). This
  /// takes 9 to 17 ns.
  Ticks now() const noexcept {
    if (state() == static_cast<std::uint64_t>(arch::kCycleClock)) [[likely]]
      return Ticks{arch::read_ordered() - origin_};
    return slow_now();
  }

  /// Call this when the host is about to forbid reading any clock: now() then returns the time of this call, until
  /// thaw() has been called as often as freeze().
  void freeze() noexcept;
  void thaw() noexcept;

  Clock kind() const noexcept { return static_cast<Clock>(state() % kFreeze); }
  /// The counter's value at time 0.
  std::uint64_t origin() const noexcept { return origin_; }
  /// CLOCK_MONOTONIC at time 0.
  std::uint64_t origin_monotonic_ns() const noexcept { return origin_monotonic_ns_; }
  /// Ticks in `ns` nanoseconds. An estimate until the first calibrate().
  Ticks ticks_in(std::uint64_t ns) const noexcept;
  /// CLOCK_MONOTONIC at `time`, computed from the rate, for use while system calls are forbidden.
  std::uint64_t monotonic_ns_at(Ticks time) const noexcept;
  /// Computes the rate from readings of both clocks that were taken together.
  void calibrate(Ticks time, std::uint64_t monotonic_ns) noexcept;

 private:
  static constexpr std::uint64_t kFreeze = 256;

  std::uint64_t state() const noexcept { return __atomic_load_n(&state_, __ATOMIC_RELAXED); }
  Ticks slow_now() const noexcept;

  /// The Clock that now() reads, plus kFreeze for each freeze() without its thaw(). One word, so that no thread sees
  /// a running clock while another thread's freeze() is in force. The count has 56 bits and does not overflow.
  std::uint64_t state_ = static_cast<std::uint64_t>(Clock::kMonotonic);
  std::uint64_t origin_ = 0;
  std::uint64_t origin_monotonic_ns_ = 0;
  std::uint64_t frozen_at_ = 0;  ///< Ticks
  std::uint64_t ticks_per_1024_ns_ = 1024;
};

extern TickClock g_clock [[gnu::visibility("hidden")]];

}  // namespace heapprof::recorder
