// What the recorder does only in programs whose libc is musl.
#pragma once

namespace heapprof::hooks {

/// Prepares the recorder for musl; does nothing with another libc. By the library's constructor, which runs before
/// any other code of the program: nothing has been recorded yet.
void prepare_for_musl() noexcept;

}  // namespace heapprof::hooks
