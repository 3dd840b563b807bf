// Whether this is still the process that opened the trace, or a child forked from it.
//
// A child shares the mapping of its parent's trace and must not write to it. It finds out at its next event, and
// starts anew or stays silent (lifecycle.h). But fork may be called by a signal handler that interrupted the
// recorder, and the child then comes back into the middle of an event of the parent's: so the stream asks once more
// before it commits.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

/// In a page that the kernel empties in a forked child (MADV_WIPEONFORK).
struct ForkPage {
  std::uint32_t same_process;  ///< 0 in a child, 1 here
  /// What an event compares with its thread's generation, to know in one look that nothing is out of the ordinary:
  /// the process's generation, and bits of kGate... when something is. 0 in a child.
  std::uint32_t gate;
};
extern ForkPage* g_fork_page [[gnu::visibility("hidden")]];

/// Bits of the gate. Any of them sends events the slow way, which finds out what there is to do.
inline constexpr std::uint32_t kGateStopped = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kGatePaused = std::uint32_t{1} << 30;
inline constexpr std::uint32_t kGateFreeStacks = std::uint32_t{1} << 29;

/// From here on children are told apart. False: this kernel can't (before 4.14). The gate is closed.
bool watch_for_fork() noexcept;
/// In a child that has understood: until it opens a trace of its own. The gate is closed.
void watch_for_no_fork() noexcept;

inline bool in_forked_child() noexcept { return __atomic_load_n(&g_fork_page->same_process, __ATOMIC_RELAXED) == 0; }

/// Opens it for threads of this generation (above 0, below all bits), with bits that are to be raised. What was
/// raised meanwhile stays: another thread may have stopped the recording.
inline void open_gate(std::uint32_t generation) noexcept {
  __atomic_fetch_or(&g_fork_page->gate, generation, __ATOMIC_RELEASE);
}
inline void raise_at_gate(std::uint32_t bit) noexcept {
  __atomic_fetch_or(&g_fork_page->gate, bit, __ATOMIC_RELEASE);
}
inline void lower_at_gate(std::uint32_t bit) noexcept {
  __atomic_fetch_and(&g_fork_page->gate, ~bit, __ATOMIC_RELEASE);
}

}  // namespace heapprof::recorder
