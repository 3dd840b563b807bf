// Whether this is still the process that opened the trace, or a child forked from it.
//
// A child shares the mapping of its parent's trace and must not write to it. It finds out at its next event, and starts
// anew or stays silent (lifecycle.h). But fork may be called by a signal handler that interrupted the recorder, and
// the child then comes back into the middle of an event of the parent's: so the stream asks once more before it commits.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

/// One word of a page that the kernel empties in a forked child (MADV_WIPEONFORK): 0 there, 1 here.
extern const std::uint32_t* g_same_process;

/// From here on children are told apart. False: this kernel can't (before 4.14).
bool watch_for_fork() noexcept;
/// In a child that has understood: until it opens a trace of its own.
void watch_for_no_fork() noexcept;

inline bool in_forked_child() noexcept { return __atomic_load_n(g_same_process, __ATOMIC_RELAXED) == 0; }

}  // namespace heapprof::recorder
