// The clock lease: the right of one thread to use one time for several events, instead of reading the clock for each
// (9 to 17 ns). A thread that seems to be the only one with events acquires the lease and holds it until another
// thread has an event; that thread revokes it. docs/concepts/ordering.md explains why events still have the right
// order. That depends on three rules:
//
//   1. The holder reads the time of a run after it acquired the lease.
//   2. The holder checks the lease for each event: after the real malloc, before the real free.
//   3. Another thread reads the time of its event first, then the lease (lease_holder_after). If the lease has a
//      holder, the thread revokes it and reads the time again.
//
// Acquiring and revoking take one atomic compare-and-swap each, on a cache line that threads otherwise only read.
// Every function may be called from any thread and from signal handlers.
#pragma once

#include <cstdint>

#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/time_types.h"

namespace heapprof::recorder {

/// A thread, identified by the address of its state (thread/thread_state.h).
enum class LeaseHolder : std::uint64_t { kNone = 0 };

/// [0]: the LeaseHolder. [1] is never written; see lease_holder_after.
[[gnu::visibility("hidden")]] extern std::uint64_t g_clock_lease[2];

inline bool holds_clock_lease(LeaseHolder self) noexcept {
  return __atomic_load_n(&g_clock_lease[0], __ATOMIC_RELAXED) == static_cast<std::uint64_t>(self);
}

/// The holder of the lease, loaded after `time` was read from the clock. A processor may execute a load before a
/// clock reading that precedes it in the program, but not if the address of the load depends on the clock's value.
/// (Bit 63 of a time is never set.)
inline LeaseHolder lease_holder_after(Ticks time) noexcept {
  return LeaseHolder{__atomic_load_n(&g_clock_lease[tick_count(time) >> 63], __ATOMIC_RELAXED)};
}

/// Revokes the lease of `holder`, a result of lease_holder_after(). Does nothing if `holder` does not hold the lease
/// any more.
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

/// Determines how often a thread tries to acquire the lease: a thread that lost the lease soon after acquiring it
/// waits longer before the next attempt. So if threads alternate, they soon try rarely. Zeroed memory is a valid
/// object.
struct LeaseHistory {
  std::uint32_t runs;       ///< runs of events since the thread acquired the lease; 0: it has not acquired it
  std::uint32_t wait;       ///< runs until the next attempt
  std::uint32_t last_wait;  ///< the value with which `wait` began
};

/// Call this at the end of a run of events. Returns whether `self` holds the lease during the next run, after
/// acquiring it if that is possible and due. The time of that run must be read afterwards.
bool keep_or_acquire_clock_lease(LeaseHolder self, LeaseHistory& history) noexcept;

}  // namespace heapprof::recorder
