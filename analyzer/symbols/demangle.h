// C++ and Rust names as people write them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heapprof::symbols {

/// The demangled form of a C++ (Itanium) or Rust (legacy and v0) symbol, with parameters and without
/// Rust's hash; any other name as it is. Names whose demangled form exceeds 64 KiB, which only a hostile
/// file has, stay mangled.
std::string demangle(std::string_view name);

/// A demangled name without the contents of its template and generic arguments and of its parameters:
/// `std::vector<...>::push_back(...)`, `<Vec<...> as Extend<...>>::extend`. What tells a function from another of the
/// same scope stays: operators, casts, clones, Rust's `<Type as Trait>`, `(anonymous namespace)`, lambdas. A name
/// whose brackets don't match, or that is short as it is (kShortEnough), comes back unchanged.
std::string shorten(std::string_view name);

inline constexpr std::size_t kShortEnough = 48;

}  // namespace heapprof::symbols
