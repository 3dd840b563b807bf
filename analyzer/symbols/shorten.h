// Demangled names without their template arguments and parameters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heapprof::symbols {

/// Names of at most so many bytes are not shortened.
inline constexpr std::size_t kShortEnough = 48;

/// A demangled name with "..." in place of template arguments, generic arguments and parameters:
/// `std::vector<...>::push_back(...)`, `<Vec<...> as Extend<...>>::extend`. What distinguishes functions of one scope
/// stays: operators, casts, clones, Rust's `<Type as Trait>`, `(anonymous namespace)`, lambdas. A name whose brackets
/// do not match is returned unchanged.
std::string shorten(std::string_view name);

}  // namespace heapprof::symbols
