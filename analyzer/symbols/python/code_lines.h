// The source line of each instruction of a Python code object.
#pragma once

#include <cstdint>
#include <string_view>

#include "analyzer/symbols/python/line_starts.h"
#include "common/trace_format.h"

namespace heapprof::symbols::python {

class CodeLines {
 public:
  /// Decodes untrusted bytes.
  CodeLines(PythonLines encoding, std::string_view table, std::uint32_t first_line);

  /// The line of an instruction, whose distance from the first one is in units of 2 bytes. An instruction without a
  /// line, which prepares the function, is at the function's first line, as are kPythonNoInstruction and each one
  /// without a table. 0: unknown.
  int line_of(std::uint32_t instruction) const;

 private:
  int first_line_;
  LineStarts starts_;
};

}  // namespace heapprof::symbols::python
