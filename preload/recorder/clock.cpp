#include "preload/recorder/clock.h"

#include "preload/recorder/text.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

constinit TickClock g_clock;

namespace {

constexpr Clock kFrozen{0};

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
  announced_ = arch::cycle_clock_invariant() && kernel_trusts_cycle_clock() ? arch::kCycleClock : Clock::kMonotonic;
  origin_monotonic_ns_ = monotonic_ns();
  origin_ = announced_ == arch::kCycleClock ? arch::read_ordered() : origin_monotonic_ns_;
  ticks_per_1024_ns_ = 1024;
  if (announced_ == arch::kCycleClock && arch::cycle_clock_rate() != 0)
    ticks_per_1024_ns_ = arch::cycle_clock_rate() * 1024 / 1'000'000'000 + 1;
  kind_ = announced_;
}

std::uint64_t TickClock::slow_now() const noexcept {
  if (kind_ == kFrozen) return frozen_at_;
  return monotonic_ns() - origin_;
}

void TickClock::freeze() noexcept {
  frozen_at_ = now();
  kind_ = kFrozen;
  __atomic_fetch_add(&freezes_, 1, __ATOMIC_SEQ_CST);
}

void TickClock::thaw() noexcept {
  if (__atomic_sub_fetch(&freezes_, 1, __ATOMIC_SEQ_CST) == 0) kind_ = announced_;
}

std::uint64_t TickClock::ticks_in(std::uint64_t ns) const noexcept { return ns * ticks_per_1024_ns_ / 1024; }

void TickClock::learn(std::uint64_t ticks, std::uint64_t monotonic_ns) noexcept {
  const std::uint64_t elapsed_ns = monotonic_ns - origin_monotonic_ns_;
  if (announced_ != arch::kCycleClock || elapsed_ns < 100'000 || ticks > (~std::uint64_t{0} >> 10)) return;
  ticks_per_1024_ns_ = ticks * 1024 / elapsed_ns + 1;
}

}  // namespace heapprof::recorder
