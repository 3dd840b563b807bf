// Pairs of bytes: the length of a piece of bytecode, then a signed distance in lines, with which the piece has its
// line; -128: it has none.
#include <cstddef>

#include "analyzer/symbols/python/line_starts.h"

namespace heapprof::symbols::python {

LineStarts decode_line_table(std::string_view table, std::uint32_t first_line) {
  constexpr int kNoLine = -128;
  LineSum line(first_line);
  std::uint64_t offset = 0;
  LineStarts starts;
  for (std::size_t at = 0; at + 1 < table.size(); at += 2) {
    const unsigned length = static_cast<unsigned char>(table[at]);
    const int difference = static_cast<std::int8_t>(static_cast<unsigned char>(table[at + 1]));
    if (difference != kNoLine) line.add(difference);
    if (length != 0) add_start(starts, offset, difference == kNoLine ? 0 : line.line());
    offset += length;
  }
  add_start(starts, offset, 0);
  return starts;
}

}  // namespace heapprof::symbols::python
