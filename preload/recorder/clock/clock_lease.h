// Who need not read the clock, in a process with several threads.
//
// Order across threads comes from time, so an event needs a time of its own: 17 ns. But mostly one thread allocates
// and the others wait, and as long as that is so its events are ordered by where they stand in its stream. So a
// thread that seems to be the only one takes the turn, and has it until another thread has an event. While it has it,
// a run of its events has one time (the first one's), as in a process with one thread.
//
// Why that is right. For one address a release must never be later than the allocation that follows it, and an
// allocation never later than its release. Times that are too early only hurt an allocation, or a release of what
// another thread allocated: A's, say.
//
//   - The time that A uses was read after A took the turn; it asks whether it still has the turn for each event,
//   after the real
//     malloc, before the real free.
//   - Another thread reads the time of its event and then looks whose turn it is, in this order (its_turn_after).
//   Whose
//     it is, loses it; the time is read again.
//
// So an event of B's that A can know of (by the block that it got) either saw A's turn, and ended it before A knew;
// or saw that it was nobody's, and then its time was read before A took the turn, and A's is later.
//
// Taking and ending are one atomic exchange each, on a line that all threads otherwise only read. A thread that lost
// the turn soon after it had taken it waits longer the next time: where threads alternate, nobody tries, and each
// event reads the clock.
#pragma once

#include <cstdint>

#include "preload/recorder/clock/clock.h"
#include "preload/recorder/thread/thread_state.h"

namespace heapprof::recorder {

/// First: the ThreadState whose turn it is, or 0. The second is never written: see its_turn_after.
extern std::uint64_t g_turn[2] [[gnu::visibility("hidden")]];

inline std::uint64_t turn_of(const ThreadState& thread) noexcept { return reinterpret_cast<std::uint64_t>(&thread); }

inline bool has_turn(const ThreadState& thread) noexcept {
  return __atomic_load_n(&g_turn[0], __ATOMIC_RELAXED) == turn_of(thread);
}

/// Whose turn it is, looked at after `time` was read: processors read memory before a clock that stands earlier in
/// the program, but not where the address depends on what the clock said. (No time has its highest bit set.)
inline std::uint64_t its_turn_after(std::uint64_t time) noexcept {
  return __atomic_load_n(&g_turn[time >> 63], __ATOMIC_RELAXED);
}

/// Ends the turn of `owner`, as its_turn_after() told.
inline void end_turn(std::uint64_t owner) noexcept {
  __atomic_compare_exchange_n(&g_turn[0], &owner, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/// A time that is later than those of all turns that were.
inline std::uint64_t time_of_its_own(const ThreadState& thread) noexcept {
  for (;;) {
    const std::uint64_t now = g_clock.now();
    const std::uint64_t owner = its_turn_after(now);
    if (owner == 0 || owner == turn_of(thread)) [[likely]] return now;
    end_turn(owner);
  }
}

/// At the end of a run: whether the next one, of whose events the time must be read after this, is one of the
/// thread's turn.
bool keep_or_take_turn(ThreadState& thread) noexcept;

}  // namespace heapprof::recorder
