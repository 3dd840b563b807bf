// The search for the host's unwinding library, for other hooks.
#pragma once

namespace heapprof::hooks {

/// Finds the host's unwinding library. Call it in the library's constructor, and before the host forbids system
/// calls: the search needs them. `only_thread`: the process has no other thread, which speeds up the search.
void find_unwinding_library(bool only_thread = false) noexcept;

}  // namespace heapprof::hooks
