#include "preload/recorder/control/sampler.h"

#include "preload/recorder/clock/clock.h"
#include "preload/recorder/residency/resident_memory.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

constinit std::uint64_t g_next_sample = 0;
constinit std::uint64_t g_sampled_resident_bytes = 0;

namespace {

constexpr std::uint64_t kIntervalNs = 10'000'000;

constinit std::uint64_t g_stops = 0;  ///< calls of stop_sampler()

}  // namespace

void close_sampler() noexcept { close_resident_memory(); }

void start_sampler() noexcept { open_resident_memory(); }

Ticks latest_next_sample(Ticks now) noexcept { return now + g_clock.ticks_in(kIntervalNs); }

void stop_sampler() noexcept {
  __atomic_fetch_add(&g_stops, std::uint64_t{1}, __ATOMIC_SEQ_CST);
  __atomic_store_n(&g_next_sample, ~std::uint64_t{0}, __ATOMIC_RELAXED);
}
void resume_sampler() noexcept { __atomic_store_n(&g_next_sample, 0, __ATOMIC_RELAXED); }

void take_sample(ThreadState& thread) noexcept {
  const std::uint64_t stops = __atomic_load_n(&g_stops, __ATOMIC_ACQUIRE);
  if (sys::forbidden()) return;
  std::uint64_t due = __atomic_load_n(&g_next_sample, __ATOMIC_RELAXED);
  const ResidentMemory memory = resident_memory();
  // The clocks are read after the file, so that reading the file does not separate the two readings.
  const Ticks now = g_clock.now();
  const std::uint64_t monotonic_ns = sys::clock_ns(CLOCK_MONOTONIC);
  if (monotonic_ns == 0) return;  // system calls were forbidden meanwhile
  // If the sampler was stopped meanwhile, the clock may have been frozen, or the file could not be read. g_stops
  // shows this even if the kernel has refused the restriction since, and everything was undone: the recorder first
  // forbids system calls, freezes the clock and stops the sampler, and only then passes the call to the kernel.
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (__atomic_load_n(&g_stops, __ATOMIC_RELAXED) != stops) return;
  thread.stream.advance_time(now);
  thread.stream.append_text(TextKind::kSharedMemory, memory.shared_bytes, 0, nullptr, 0);
  thread.stream.append(Op::kSample, now, monotonic_ns, memory.resident_bytes, 0, 0);
  __atomic_store_n(&g_sampled_resident_bytes, memory.resident_bytes, __ATOMIC_RELAXED);
  g_clock.calibrate(now, monotonic_ns);
  const std::uint64_t elapsed_ns = monotonic_ns - g_clock.origin_monotonic_ns();
  const std::uint64_t interval_ns = elapsed_ns < 500'000       ? 500'000
                                    : elapsed_ns < kIntervalNs ? elapsed_ns
                                                               : kIntervalNs;
  // Has no effect if another thread has stopped the sampler meanwhile.
  __atomic_compare_exchange_n(&g_next_sample, &due, tick_count(now + g_clock.ticks_in(interval_ns)), false,
                              __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

}  // namespace heapprof::recorder
