// C++ and Rust names as people write them.
#pragma once

#include <string>
#include <string_view>

namespace heapprof::symbols {

/// The demangled form of a C++ (Itanium) or Rust (legacy and v0) symbol, with parameters and without
/// Rust's hash; any other name as it is. Names whose demangled form exceeds 64 KiB, which only a hostile
/// file has, stay mangled.
std::string demangle(std::string_view name);

}  // namespace heapprof::symbols
