// Finds the host's unwinding library, libgcc_s or LLVM's libunwind, and functions of it.
//
// A JIT compiler's registrations of unwind tables have to reach that library, which may be loaded late, privately
// (RTLD_LOCAL), and may be unloaded. So the search visits all objects of the loader's list, and reads them
// through the kernel: another thread's dlclose may unload one meanwhile.
#pragma once

#include <cstddef>

#include "preload/sys/guarded_read.h"

namespace heapprof::real {

enum class LibrarySearch {
  kFound,
  kNone,        ///< no object named libgcc_s or libunwind has one of the functions
  kUnreadable,  ///< the list could not be read to its end
};

/// Stores the address of each function of `names` that is found to `functions`, which are null before the call and
/// stay null where nothing is found. Closes `reader`. Thread-safe and async-signal-safe; allocates nothing.
LibrarySearch find_unwinding_functions(const char* const* names, void** functions, std::size_t count,
                                       sys::GuardedReader& reader) noexcept;

}  // namespace heapprof::real
