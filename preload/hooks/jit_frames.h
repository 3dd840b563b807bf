// The search for the host's unwinding library, for other hooks.
#pragma once

namespace heapprof::hooks {

/// Finds the host's unwinding library. Call it in the library's constructor, and before the host forbids system
/// calls: the search needs them.
void find_unwinding_library() noexcept;

}  // namespace heapprof::hooks
