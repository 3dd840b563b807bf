// Detects whether this is the process that opened the trace, or a child forked from it. The fast-path guard is in the
// same page, so that one comparison checks both.
//
// A child shares its parent's mapping of the trace and must not write to it. It detects the fork at its next event
// (forked() in lifecycle.h). But a signal handler may call fork while it interrupts the recorder, and the child then
// returns into the middle of its parent's event. Therefore the stream checks again before it commits.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

/// The contents of a page that the kernel zeroes in a forked child (MADV_WIPEONFORK).
struct ForkPage {
  std::uint32_t same_process;  ///< 1 in the process that mapped the page, 0 in a forked child
  /// The process generation (thread/thread_state.h) while events may take the fast path; a kGuard... bit is set for
  /// each reason why they may not. An event compares it with its thread's generation. 0 in a child.
  std::uint32_t fast_path_guard;
};
extern ForkPage* g_fork_page [[gnu::visibility("hidden")]];

inline constexpr std::uint32_t kGuardStopped = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kGuardPaused = std::uint32_t{1} << 30;
inline constexpr std::uint32_t kGuardFreeStacks = std::uint32_t{1} << 29;

/// Maps the page: from here on in_forked_child() is true in forked children. Blocks the fast path. Returns false on a
/// kernel that lacks MADV_WIPEONFORK (before 4.14): forks are then not detected.
bool start_fork_watch() noexcept;
/// For a child that has detected the fork: in_forked_child() becomes false, and the fast path stays blocked until the
/// child opens its own trace.
void stop_fork_watch() noexcept;

inline bool in_forked_child() noexcept { return __atomic_load_n(&g_fork_page->same_process, __ATOMIC_RELAXED) == 0; }

/// Opens the fast path to threads of `generation` (above 0, below all kGuard... bits). `bits` may hold kGuard... bits
/// to set. Bits that are set already stay: another thread may have stopped the recording.
inline void open_fast_path(std::uint32_t generation, std::uint32_t bits) noexcept {
  __atomic_fetch_or(&g_fork_page->fast_path_guard, generation | bits, __ATOMIC_RELEASE);
}
inline void set_guard_bit(std::uint32_t bit) noexcept {
  __atomic_fetch_or(&g_fork_page->fast_path_guard, bit, __ATOMIC_RELEASE);
}
inline void clear_guard_bit(std::uint32_t bit) noexcept {
  __atomic_fetch_and(&g_fork_page->fast_path_guard, ~bit, __ATOMIC_RELEASE);
}

}  // namespace heapprof::recorder
