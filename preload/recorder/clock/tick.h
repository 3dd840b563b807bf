// A word of memory that the kernel changes at each tick of its timer (every 1 to 10 ms), to see without reading a
// clock that time has passed: 1 ns instead of 10 to 17. A run of events has one time (stream.h); a program may sleep
// between two of them, or compute.
//
// The word is the nanoseconds of CLOCK_MONOTONIC_COARSE in the page of time data that the kernel shares with each
// process for the vdso. Where in it they stand the kernel does not promise, so they are looked for by their value.
// Where they are not found (in time namespaces, in emulators, without /proc), each event reads the clock.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

extern const std::uint64_t* g_tick [[gnu::visibility("hidden")]];

/// What is there now: no number to reckon with, but another one after each tick.
inline std::uint64_t tick() noexcept {
  return __atomic_load_n(__atomic_load_n(&g_tick, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/// The host is about to unmap or move this memory, or has mapped something else there: if the word is in it, it is
/// not read any more. Where a host does so by other ways than libc's functions, it dies of the next event.
void forget_tick_in(const void* begin, std::uint64_t bytes) noexcept;

/// Looks for the word. 30 to 60 us; uses 1 KB of stack.
void find_tick() noexcept;
bool tick_is_known() noexcept;

}  // namespace heapprof::recorder
