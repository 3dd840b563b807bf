// Shorter forms of functions' names and of paths, for labels. All text is clean UTF-8 (utf8.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heapprof::render {

/// A C++ or Rust function's name with `<…>` for template arguments and `()` for parameter lists. `operator<`,
/// `operator()`, `(anonymous namespace)` and `{lambda(...)#1}` stay recognisable. A name whose brackets do not
/// balance is returned unchanged. (The option --short-names has another form: symbols::shorten().)
std::string without_arguments(std::string_view name);

/// A name without_arguments() in at most `code_points`. Outer scopes are removed first (`a::b::f()` becomes `f()`),
/// since the end of a name identifies it best; then the end is clipped.
std::string fit_name(std::string_view name, std::size_t code_points);

/// A path, perhaps with a line number, in at most `code_points`. Outer directories are removed first
/// (`/usr/src/redis/listpack.c:855` becomes `…/listpack.c:855`); then the end is clipped.
std::string fit_path(std::string_view path, std::size_t code_points);

}  // namespace heapprof::render
