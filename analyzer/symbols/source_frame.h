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
  /// The file in which the function is defined, if that is not `file`: a function can have lines of an included file,
  /// or of the grammar that it was generated from (`#line`). Empty: it is `file`, or unknown.
  std::string definition_file{};
  /// The first line of a Python function, which distinguishes it from others of the same name in the file: lambdas,
  /// and before 3.11, which has qualified names, methods of several classes. 0: unknown, or not Python.
  int definition_line = 0;

  /// `file`, if that is not known.
  const std::string& file_of_definition() const noexcept { return definition_file.empty() ? file : definition_file; }
};

}  // namespace heapprof::symbols
