// C++ and Rust names, demangled.
#pragma once

#include <string>
#include <string_view>

namespace heapprof::symbols {

/// The demangled form of a C++ (Itanium ABI) or Rust (legacy and v0) symbol, with parameters and without Rust's hash.
/// Any other name is returned unchanged, and so are a C++ name of more than 8 KiB and a name whose demangled form
/// exceeds 64 KiB, which only a hostile file contains.
std::string demangle(std::string_view name);

}  // namespace heapprof::symbols
