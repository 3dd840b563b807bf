// The timer tick: a word of memory that the kernel changes at each tick of its timer, every 1 to 10 ms. Comparing it
// costs 1 ns, reading a clock 10 to 17, so a run of events (trace/stream.h) uses it to notice that time has passed:
// the program may sleep or compute between two events.
//
// The word is the nanoseconds part of CLOCK_MONOTONIC_COARSE in the page that the kernel shares with each process for
// the vdso ([vvar]). The kernel does not promise where in that page it is, so find_tick_word() searches for the
// value. Where it finds nothing (time namespaces, emulators, no /proc), every event reads the clock.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

extern const std::uint64_t* g_tick_word [[gnu::visibility("hidden")]];

/// The word's value now. Compare it with an earlier one for equality only. Any thread, also in signal handlers.
inline std::uint64_t tick() noexcept {
  return __atomic_load_n(__atomic_load_n(&g_tick_word, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/// Call this when the host is about to unmap or move this memory, or has mapped something else there: if the word is
/// in it, it is not read any more. A host that unmaps the page by other means than libc's functions crashes at its
/// next event.
void forget_tick_word_in(const void* begin, std::uint64_t bytes) noexcept;

/// Searches for the word. 30 to 60 us; uses 1 KB of stack. Not while another thread records events.
void find_tick_word() noexcept;
bool has_tick_word() noexcept;

}  // namespace heapprof::recorder
