// What other hooks have to tell jit_frames.cpp.
#pragma once

namespace heapprof::hooks {

/// Finds the host's unwinding library while that is possible: at the start, and before the host forbids system calls.
void find_unwinding_library() noexcept;

/// Tells the trace, at the end, how many registrations the host's unwinding library has not got.
void report_lost_registrations() noexcept;

}  // namespace heapprof::hooks
