// Finds the function that the host would have called without us: the next definition after this library in
// the loader's order of search, as dlsym(RTLD_NEXT) would.
//
// Why not dlsym: it takes the loader's lock and may allocate, so it needs a way to serve the host's and its
// own allocations while it runs; its symbol version moved with glibc 2.34 (libdl's until then); and hosts
// replace it. What is read here (the loader's list of objects, their hash tables) is public ABI: link.h,
// gabi "Dynamic Linking", and for the GNU hash table
// https://sourceware.org/legacy-ml/binutils/2006-10/msg00377.html. A test compares every answer with dlsym's.
//
// No lock, no memory, no system call. Objects are only appended to the list or unlinked from it by dlclose.
// The search passes only objects that came with the program, which are never closed, because all that is
// asked for here is found among those: libc is the last resort and one of them.
#pragma once

#include <cstddef>

#include "preload/sys/guarded_read.h"

namespace heapprof::hooks {

/// Null when no object after this library (nor one before it: a program that is libc itself) defines `name`.
void* next_symbol(const char* name) noexcept;

/// The same, but an object before this library is never asked: what it defines is the program's, not libc's.
void* following_symbol(const char* name) noexcept;

/// The definition that the program's own references to `name` reach: the first one, as dlsym(RTLD_DEFAULT).
void* first_symbol(const char* name) noexcept;

/// Whether the program itself, not a library, exports a function `name`, which then is the first.
bool program_defines(const char* name) noexcept;

enum class UnwinderSearch {
  kFound,
  kNone,        ///< no object is called libgcc_s or libunwind and has one of the functions
  kUnreadable,  ///< the list could not be read to its end
};

/// The functions of these names in libgcc_s or LLVM's libunwind, wherever and whenever it was loaded: where a JIT's
/// registrations have to arrive. `functions` are null before, and stay null where nothing is found. The objects are
/// read through the kernel, as another thread's dlclose may take one away meanwhile. Closes the reader.
UnwinderSearch find_unwinder(const char* const* names, void** functions, std::size_t count,
                             sys::GuardedReader& reader) noexcept;

}  // namespace heapprof::hooks
