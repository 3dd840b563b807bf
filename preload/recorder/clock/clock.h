// The time of events: ticks since the recorder's start. Ticks are the processor's cycle clock where the
// kernel itself trusts it (its clock source), else CLOCK_MONOTONIC in nanoseconds.
#pragma once

#include <cstdint>

#include "common/trace_format.h"
#include "preload/arch/arch.h"

namespace heapprof::recorder {

class TickClock {
 public:
  /// Chooses the clock and sets its origin.
  void start() noexcept;

  /// Ticks now, after everything this thread did before (arch/*/ticks.h). 9 to 14 ns.
  std::uint64_t now() const noexcept {
    if (state() == static_cast<std::uint64_t>(arch::kCycleClock)) [[likely]] return arch::read_ordered() - origin_;
    return slow_now();
  }

  /// The host is about to forbid reading any clock: time stands still from here on, until as many calls of
  /// thaw() say that it could not.
  void freeze() noexcept;
  void thaw() noexcept;

  Clock kind() const noexcept { return static_cast<Clock>(state() % kFreeze); }
  std::uint64_t origin() const noexcept { return origin_; }
  std::uint64_t origin_monotonic_ns() const noexcept { return origin_monotonic_ns_; }
  /// Ticks in `ns` nanoseconds: a guess at first, then measured by each learn().
  std::uint64_t ticks_in(std::uint64_t ns) const noexcept;
  /// CLOCK_MONOTONIC at `ticks`, computed by the rate learned so far: for where the kernel may not be asked.
  std::uint64_t monotonic_ns_at(std::uint64_t ticks) const noexcept;
  /// Learns the rate from a pair of readings taken together.
  void learn(std::uint64_t ticks, std::uint64_t monotonic_ns) noexcept;

 private:
  static constexpr std::uint64_t kFreeze = 256;

  std::uint64_t state() const noexcept { return __atomic_load_n(&state_, __ATOMIC_RELAXED); }
  std::uint64_t slow_now() const noexcept;

  /// The Clock that now() reads, plus kFreeze for each freeze() without its thaw(): one word, so that no thread sees
  /// a running clock while another one's freeze() is in force. The count has 56 bits and does not wrap around.
  std::uint64_t state_ = static_cast<std::uint64_t>(Clock::kMonotonic);
  std::uint64_t origin_ = 0;
  std::uint64_t origin_monotonic_ns_ = 0;
  std::uint64_t frozen_at_ = 0;
  std::uint64_t ticks_per_1024_ns_ = 1024;
};

extern TickClock g_clock [[gnu::visibility("hidden")]];

}  // namespace heapprof::recorder
