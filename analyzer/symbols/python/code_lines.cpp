#include "analyzer/symbols/python/code_lines.h"

#include <algorithm>

namespace heapprof::symbols::python {

CodeLines::CodeLines(PythonLines encoding, std::string_view table, std::uint32_t first_line)
    : first_line_(valid_line(first_line)) {
  if (table.empty()) return;
  switch (encoding) {
    case PythonLines::kLnotab: starts_ = decode_lnotab(table, first_line); break;
    case PythonLines::kLineTable: starts_ = decode_line_table(table, first_line); break;
    case PythonLines::kLocations: starts_ = decode_locations(table, first_line); break;
    case PythonLines::kNone: break;
  }
}

int CodeLines::line_of(std::uint32_t instruction) const {
  if (instruction >= kPythonNoInstruction) return first_line_;
  const auto after = std::ranges::upper_bound(starts_, instruction * 2, {}, &LineStart::offset);
  const int line = after == starts_.begin() ? 0 : after[-1].line;
  return line != 0 ? line : first_line_;
}

}  // namespace heapprof::symbols::python
