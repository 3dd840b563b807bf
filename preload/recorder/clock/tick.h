// The timer tick: a word of memory that the kernel changes at each tick of its timer, every 1 to 10 ms. Comparing it
// takes 1 ns, reading a clock 9 to 17 ns. So a run of events (trace/stream.h) uses it to detect that time has passed:
// the program may sleep or compute between two events.
//
// The word is the nanoseconds part of CLOCK_MONOTONIC_COARSE in the page that the kernel shares with each process for
// the vdso ([vvar]). The kernel does not promise where in that page it is, so find_tick_word() searches for the
// value. If it is not found (time namespaces, emulators, no /proc), every event reads the clock.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

extern const std::uint64_t* g_tick_word [[gnu::visibility("hidden")]];

/// The current value of the word. Compare it with earlier values for equality only. May be called from any thread and
/// from signal handlers.
inline std::uint64_t tick() noexcept {
  return __atomic_load_n(__atomic_load_n(&g_tick_word, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/// Call this when the host is about to unmap or move this memory, or has mapped something else there: if it contains
/// the word, the recorder stops reading the word. A host that unmaps the page by other means than libc's functions
/// crashes at its next event.
void forget_tick_word_in(const void* begin, std::uint64_t bytes) noexcept;

/// Searches for the word. Takes 1 KB of stack, and 30 to 60 us before Linux 6.11, where /proc/self/maps is read. Call
/// it while no other thread records events.
void find_tick_word() noexcept;
bool has_tick_word() noexcept;

}  // namespace heapprof::recorder
