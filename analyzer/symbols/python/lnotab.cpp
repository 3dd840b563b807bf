// Pairs of bytes: the distance in bytecode to the next line's begin, then a signed distance in lines.
#include <cstddef>

#include "analyzer/symbols/python/line_starts.h"

namespace heapprof::symbols::python {

LineStarts decode_lnotab(std::string_view table, std::uint32_t first_line) {
  LineSum line(first_line);
  std::uint64_t offset = 0;
  LineStarts starts;
  add_start(starts, 0, line.line());
  for (std::size_t at = 0; at + 1 < table.size(); at += 2) {
    offset += static_cast<unsigned char>(table[at]);
    line.add(static_cast<signed char>(table[at + 1]));
    add_start(starts, offset, line.line());
  }
  return starts;
}

}  // namespace heapprof::symbols::python
