#include "preload/intercept/scan_lock.h"

#include <cstdint>

#include "preload/recorder/thread/thread_state.h"
#include "preload/sys/kernel.h"

namespace heapprof::intercept {

namespace {

constexpr std::uint64_t kMaxWaitNs = 200'000'000;
constexpr unsigned kGenerationShift = 48;  // above every user-space address

constinit std::uint64_t g_scanner = 0;            ///< this_scanner() of the thread that scans; 0: none
constinit std::uint64_t g_abandoned_scanner = 0;  ///< the scanner for which another thread's wait timed out
constinit bool g_scan_was_missed = false;

/// The address of the thread's thread-local storage and, above it, the process generation: the parent's threads do
/// not exist in a forked child, so their scans never end there.
std::uint64_t this_scanner() noexcept {
  const std::uint64_t generation = recorder::g_process_generation;
  return reinterpret_cast<std::uint64_t>(&recorder::t_local) | generation << kGenerationShift;
}

}  // namespace

bool begin_scan() noexcept {
  const std::uint64_t self = this_scanner();
  std::uint64_t scanner = 0;
  const auto try_lock = [&] {
    scanner = __atomic_load_n(&g_scanner, __ATOMIC_RELAXED);
    // The lock is free when it is 0, or when its owner belongs to another process generation.
    if (scanner >> kGenerationShift == self >> kGenerationShift) scanner = 0;
    return __atomic_compare_exchange_n(&g_scanner, &scanner, self, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  };
  if (try_lock()) return true;
  if (scanner == self || scanner == __atomic_load_n(&g_abandoned_scanner, __ATOMIC_RELAXED)) return false;
  const std::uint64_t begin = sys::clock_ns(CLOCK_MONOTONIC);
  do {
    sys::call(SYS_sched_yield);
    if (try_lock()) return true;
  } while (sys::clock_ns(CLOCK_MONOTONIC) - begin < kMaxWaitNs);
  __atomic_store_n(&g_abandoned_scanner, scanner, __ATOMIC_RELAXED);
  return false;
}

void end_scan() noexcept { __atomic_store_n(&g_scanner, std::uint64_t{0}, __ATOMIC_RELEASE); }

void note_missed_scan() noexcept { __atomic_store_n(&g_scan_was_missed, true, __ATOMIC_RELEASE); }

bool a_scan_was_missed() noexcept { return __atomic_load_n(&g_scan_was_missed, __ATOMIC_ACQUIRE); }

bool take_missed_scan() noexcept { return __atomic_exchange_n(&g_scan_was_missed, false, __ATOMIC_ACQ_REL); }

}  // namespace heapprof::intercept
