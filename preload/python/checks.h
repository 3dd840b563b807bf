// Checks of a checked build (HEAPPROF_CHECK_STACKS): Python frames that were found by means of remembered ones are
// read again in full, stacks that were placed by means of remembered ones are placed again in full, and the number of
// each code object must always stand for the same content. The program ends at the first difference.
#pragma once

#include "preload/python/thread_frames.h"

namespace heapprof::python {

#ifdef HEAPPROF_CHECK_STACKS
inline constexpr bool kCheckFrames = true;
#else
inline constexpr bool kCheckFrames = false;
#endif

/// Checks `frames` directly after an update of it with the other arguments.
void check_frames(const ThreadFrames& frames, const Interpreter& python, std::uint64_t thread_state,
                  bool frees_noticed, ReadablePages& pages, recorder::Stream& stream) noexcept;

/// Checks the node of a mixed stack, which was placed with and without what is remembered. `same_result`: both could
/// be placed, or none.
void check_place(NodeId with_remembered, NodeId in_full, bool same_result) noexcept;

/// Call it when the numbers of code objects begin again.
void forget_checked_contents() noexcept;

}  // namespace heapprof::python
