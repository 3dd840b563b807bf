// Prints the line of each instruction of code objects, as heapprof decodes their tables, for
// tests/e2e/python_lines.py.
//
//   standard input  = (encoding first_line instructions table_bytes table)*    numbers: 4 bytes, little-endian
//   standard output = one line of text for each code object: the lines of its instructions; 0: unknown
#include <cstdint>
#include <cstdio>
#include <string>

#include "analyzer/symbols/python/code_lines.h"

namespace {

struct Head {
  std::uint32_t encoding, first_line, instructions, table_bytes;
};

}  // namespace

int main() {
  Head head;
  while (std::fread(&head, sizeof head, 1, stdin) == 1) {
    std::string table(head.table_bytes, '\0');
    if (std::fread(table.data(), 1, table.size(), stdin) != table.size()) return 1;
    const heapprof::symbols::python::CodeLines lines(static_cast<heapprof::PythonLines>(head.encoding), table,
                                                     head.first_line);
    for (std::uint32_t i = 0; i < head.instructions; ++i) std::printf("%s%d", i == 0 ? "" : " ", lines.line_of(i));
    std::putchar('\n');
  }
  return 0;
}
