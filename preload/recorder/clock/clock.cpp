#include "preload/recorder/clock/clock.h"

#include "preload/base/text.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

constinit TickClock g_clock;

namespace {

bool kernel_uses_cycle_clock() noexcept {
  char name[32];
  sys::read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", name, sizeof name);
  return after_prefix(name, arch::kCycleClockSource) != nullptr;
}

/// Calls libc, which uses the vdso and takes a tenth of the time of the system call. It does not fail for a valid
/// clock, so errno does not change.
std::uint64_t monotonic_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

void TickClock::start() noexcept {
  const Clock kind =
      arch::cycle_clock_invariant() && kernel_uses_cycle_clock() ? arch::kCycleClock : Clock::kMonotonic;
  origin_monotonic_ns_ = monotonic_ns();
  origin_ = kind == arch::kCycleClock ? arch::read_ordered() : origin_monotonic_ns_;
  ticks_per_1024_ns_ = 1024;
  if (kind == arch::kCycleClock && arch::cycle_clock_rate() != 0)
    ticks_per_1024_ns_ = arch::cycle_clock_rate() * 1024 / 1'000'000'000 + 1;
  frozen_at_ = 0;
  __atomic_store_n(&state_, static_cast<std::uint64_t>(kind), __ATOMIC_RELAXED);
}

/// Another thread may have frozen or thawed the clock since now() read the state, so every state is possible.
Ticks TickClock::slow_now() const noexcept {
  const std::uint64_t state = __atomic_load_n(&state_, __ATOMIC_ACQUIRE);
  if (state >= kFreeze) return Ticks{__atomic_load_n(&frozen_at_, __ATOMIC_ACQUIRE)};
  if (state == static_cast<std::uint64_t>(arch::kCycleClock)) return Ticks{arch::read_ordered() - origin_};
  return Ticks{monotonic_ns() - origin_};
}

void TickClock::freeze() noexcept {
  // frozen_at_ only increases, so that time does not run backwards when two threads freeze at once.
  const std::uint64_t time = tick_count(now());
  std::uint64_t latest = __atomic_load_n(&frozen_at_, __ATOMIC_RELAXED);
  while (latest < time &&
         !__atomic_compare_exchange_n(&frozen_at_, &latest, time, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  __atomic_fetch_add(&state_, kFreeze, __ATOMIC_SEQ_CST);
}

void TickClock::thaw() noexcept { __atomic_fetch_sub(&state_, kFreeze, __ATOMIC_SEQ_CST); }

Ticks TickClock::ticks_in(std::uint64_t ns) const noexcept { return Ticks{ns * ticks_per_1024_ns_ / 1024}; }

std::uint64_t TickClock::monotonic_ns_at(Ticks time) const noexcept {
  // The division comes first: the product would overflow after two months.
  const std::uint64_t ticks = tick_count(time);
  const std::uint64_t rate = ticks_per_1024_ns_;
  return origin_monotonic_ns_ + ticks / rate * 1024 + ticks % rate * 1024 / rate;
}

void TickClock::calibrate(Ticks time, std::uint64_t monotonic_ns) noexcept {
  const std::uint64_t ticks = tick_count(time);
  const std::uint64_t elapsed_ns = monotonic_ns - origin_monotonic_ns_;
  if (kind() != arch::kCycleClock || elapsed_ns < 100'000 || ticks > (~std::uint64_t{0} >> 10)) return;
  ticks_per_1024_ns_ = ticks * 1024 / elapsed_ns + 1;
}

}  // namespace heapprof::recorder
