// The clock lease: permission for one thread to give several events one time, instead of reading the clock for each
// (17 ns). A thread that seems to be the only one with events acquires it, and holds it until another thread has an
// event: that one revokes it. docs/concepts/ordering.md shows why events still have the right order. It needs:
//
//   1. The holder reads the time of a run after it acquired the lease.
//   2. The holder checks the lease for each event: after the real malloc, before the real free.
//   3. Another thread reads the time of its event first, then the lease (lease_holder_after). If somebody holds it,
//      the thread revokes it and reads the time again.
//
// To acquire and to revoke is one atomic exchange each, on a cache line that threads otherwise only read. Every
// function may be called from any thread and from signal handlers.
#pragma once

#include <cstdint>

#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/time_types.h"

namespace heapprof::recorder {

/// A thread, by the address of its state (thread/thread_state.h).
enum class LeaseHolder : std::uint64_t { kNone = 0 };

/// [0]: the LeaseHolder. [1] is never written; see lease_holder_after.
[[gnu::visibility("hidden")]] extern std::uint64_t g_clock_lease[2];

inline bool holds_clock_lease(LeaseHolder self) noexcept {
  return __atomic_load_n(&g_clock_lease[0], __ATOMIC_RELAXED) == static_cast<std::uint64_t>(self);
}

/// The holder, read after `time` was read. Processors may load memory before they read a clock that comes earlier in
/// the program, but not when the address depends on the clock's value. (Bit 63 of a time is never set.)
inline LeaseHolder lease_holder_after(Ticks time) noexcept {
  return LeaseHolder{__atomic_load_n(&g_clock_lease[tick_count(time) >> 63], __ATOMIC_RELAXED)};
}

/// Revokes the lease of `holder`, as lease_holder_after() returned it. Does nothing when another thread holds it now.
inline void revoke_clock_lease(LeaseHolder holder) noexcept {
  auto expected = static_cast<std::uint64_t>(holder);
  __atomic_compare_exchange_n(&g_clock_lease[0], &expected, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/// Reads the clock, and revokes the lease of any other thread: the result is later than every time that was used
/// under such a lease.
inline Ticks now_revoking_lease(LeaseHolder self) noexcept {
  for (;;) {
    const Ticks now = g_clock.now();
    const LeaseHolder holder = lease_holder_after(now);
    if (holder == LeaseHolder::kNone || holder == self) [[likely]]
      return now;
    revoke_clock_lease(holder);
  }
}

/// How often a thread tries to acquire the lease: a thread that lost it soon after it had acquired it waits longer
/// before the next attempt, so where threads alternate, none tries for long. Zeroed memory is a valid one.
struct LeaseHistory {
  std::uint32_t runs;       ///< runs of events since the thread acquired the lease; 0: it has not
  std::uint32_t wait;       ///< runs until the next attempt
  std::uint32_t last_wait;  ///< what `wait` began with
};

/// At the end of a run of events: whether `self` holds the lease during the next run. The time of that run has to be
/// read afterwards.
bool keep_or_acquire_clock_lease(LeaseHolder self, LeaseHistory& history) noexcept;

}  // namespace heapprof::recorder
