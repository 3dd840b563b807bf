// Demangled names without their template arguments and parameters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heapprof::symbols {

/// Longer names are shortened.
inline constexpr std::size_t kMaxUnshortenedBytes = 48;

/// A demangled name as the option --short-names prints it: with "..." in place of template arguments, generic
/// arguments and parameters. `std::vector<...>::push_back(...)`, `<Vec<...> as Extend<...>>::extend`. (Labels and
/// narrow columns have another form: render::without_arguments().) What distinguishes functions of one scope stays:
/// operators, casts, clones, Rust's `<Type as Trait>`, `(anonymous namespace)`, lambdas. A name whose brackets do not
/// match is returned unchanged.
std::string shorten(std::string_view name);

}  // namespace heapprof::symbols
