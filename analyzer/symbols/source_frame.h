// What a code address is resolved to.
#pragma once

#include <cstdint>
#include <string>

namespace heapprof::symbols {

/// A function at a source line. An address has several frames where functions were inlined.
struct SourceFrame {
  std::string function;  ///< demangled; empty: unknown
  std::string file;      ///< from the debug information, made absolute with the compilation directory; empty: unknown
  int line = 0;          ///< from 1; 0: unknown
  bool inlined = false;  ///< inlined into the next frame: the function has no stack frame of its own
  /// First address of the function in the ELF file, by its unwind information, so that the call sites in a function
  /// without a name can be grouped. Set only when function and file are unknown; 0: unknown.
  std::uint64_t function_begin = 0;
};

}  // namespace heapprof::symbols
