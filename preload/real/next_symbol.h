// Finds functions by name in the objects that the loader has loaded, in the loader's search order.
//
// next_symbol() returns what dlsym(RTLD_NEXT) would return in this library: the function that the host would call
// without it. dlsym itself cannot be used: it takes the loader's lock and may allocate, its symbol version moved with
// glibc 2.34 (before, it was libdl's), and hosts replace it. A test compares every result with dlsym's.
//
// The search takes no lock, allocates nothing and makes no system call. The loader only appends objects to its list,
// and dlclose unlinks them. The search ends at objects that came with the program, which are never unloaded: libc is
// one of them and defines every function that is looked up here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::real {

/// The next definition of `name` after this library, else the first one before it (when libc.so.6 itself is
/// executed). Null when there is none.
void* next_symbol(const char* name) noexcept;

/// The next definition of `name` after this library. Objects before this library belong to the program, not to libc,
/// and are not searched. `bytes`, unless null, receives the size of the function's code.
void* following_symbol(const char* name, std::uint64_t* bytes = nullptr) noexcept;

/// The same for `count` names, which reads the tables of each object once. Stores null where there is no definition.
void following_symbols(const char* const* names, void** found, std::size_t count) noexcept;

/// The definition that the program's own references to `name` reach: the first one, as dlsym(RTLD_DEFAULT).
void* first_symbol(const char* name) noexcept;

/// Whether the program itself, not a library, exports a function `name`.
bool program_defines(const char* name) noexcept;

}  // namespace heapprof::real
