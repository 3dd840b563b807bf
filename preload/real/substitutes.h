// Functions of glibc that musl lacks, made of functions that musl has.
//
// The library exports a hook of each, because it is one library for both. A musl program is not linked with them, but
// it can find them by dlsym, and a library that was built for glibc may be loaded into it.
#pragma once

namespace heapprof::real {

/// Fills the empty members of the table, as far as their functions can be substituted.
void substitute_missing_functions() noexcept;

}  // namespace heapprof::real
