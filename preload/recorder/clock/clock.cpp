#include "preload/recorder/clock/clock.h"

#include "preload/base/text.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

constinit TickClock g_clock;

namespace {

bool kernel_trusts_cycle_clock() noexcept {
  char name[32];
  sys::read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", name, sizeof name);
  return after_prefix(name, arch::kCycleClockSource) != nullptr;
}

/// libc's, which asks the vdso: a tenth of the price of the system call, and it fails on no valid clock,
/// so errno stays.
std::uint64_t monotonic_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

void TickClock::start() noexcept {
  const Clock kind =
      arch::cycle_clock_invariant() && kernel_trusts_cycle_clock() ? arch::kCycleClock : Clock::kMonotonic;
  origin_monotonic_ns_ = monotonic_ns();
  origin_ = kind == arch::kCycleClock ? arch::read_ordered() : origin_monotonic_ns_;
  ticks_per_1024_ns_ = 1024;
  if (kind == arch::kCycleClock && arch::cycle_clock_rate() != 0)
    ticks_per_1024_ns_ = arch::cycle_clock_rate() * 1024 / 1'000'000'000 + 1;
  frozen_at_ = 0;
  __atomic_store_n(&state_, static_cast<std::uint64_t>(kind), __ATOMIC_RELAXED);
}

/// Another thread may have frozen or thawed the clock since now() looked, so all states are possible.
std::uint64_t TickClock::slow_now() const noexcept {
  const std::uint64_t state = __atomic_load_n(&state_, __ATOMIC_ACQUIRE);
  if (state >= kFreeze) return __atomic_load_n(&frozen_at_, __ATOMIC_ACQUIRE);
  if (state == static_cast<std::uint64_t>(arch::kCycleClock)) return arch::read_ordered() - origin_;
  return monotonic_ns() - origin_;
}

void TickClock::freeze() noexcept {
  // The latest of all freezes, so that time does not run backwards when two threads freeze at once.
  const std::uint64_t time = now();
  std::uint64_t latest = __atomic_load_n(&frozen_at_, __ATOMIC_RELAXED);
  while (latest < time &&
         !__atomic_compare_exchange_n(&frozen_at_, &latest, time, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  __atomic_fetch_add(&state_, kFreeze, __ATOMIC_SEQ_CST);
}

void TickClock::thaw() noexcept { __atomic_fetch_sub(&state_, kFreeze, __ATOMIC_SEQ_CST); }

std::uint64_t TickClock::ticks_in(std::uint64_t ns) const noexcept { return ns * ticks_per_1024_ns_ / 1024; }

std::uint64_t TickClock::monotonic_ns_at(std::uint64_t ticks) const noexcept {
  // Divided first: a product of ticks overflows after two months.
  const std::uint64_t rate = ticks_per_1024_ns_;
  return origin_monotonic_ns_ + ticks / rate * 1024 + ticks % rate * 1024 / rate;
}

void TickClock::learn(std::uint64_t ticks, std::uint64_t monotonic_ns) noexcept {
  const std::uint64_t elapsed_ns = monotonic_ns - origin_monotonic_ns_;
  if (kind() != arch::kCycleClock || elapsed_ns < 100'000 || ticks > (~std::uint64_t{0} >> 10)) return;
  ticks_per_1024_ns_ = ticks * 1024 / elapsed_ns + 1;
}

}  // namespace heapprof::recorder
