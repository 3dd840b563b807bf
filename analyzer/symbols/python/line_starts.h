// The three encodings of a Python code object's lines, each in its own file, as one list: where each line begins.
//
// The tables come from a trace, so nothing of them is trusted: any bytes give a list, with at most one entry for each
// byte of the table and one more. Offsets are in bytes of bytecode, and ascend.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/trace_format.h"

namespace heapprof::symbols::python {

struct LineStart {
  std::uint32_t offset = 0;  ///< of the first instruction
  int line = 0;              ///< 0: none
  friend bool operator==(const LineStart&, const LineStart&) = default;
};

using LineStarts = std::vector<LineStart>;

/// No node of a trace refers to bytecode from here on.
inline constexpr std::uint64_t kMaxBytecode = std::uint64_t{2} << kPythonInstructionBits;

/// Appends the begin of a line. Where two lines begin at one offset, the later one is valid.
inline void add_start(LineStarts& starts, std::uint64_t offset, int line) {
  if (offset > kMaxBytecode) return;
  if (!starts.empty() && starts.back().offset == offset) starts.back().line = line;
  else if (starts.empty() || starts.back().line != line) starts.push_back({static_cast<std::uint32_t>(offset), line});
}

/// co_lnotab of 3.8 and 3.9: Objects/lnotab_notes.txt of these.
LineStarts decode_lnotab(std::string_view table, std::uint32_t first_line);
/// co_linetable of 3.10: PEP 626, Objects/lnotab_notes.txt.
LineStarts decode_line_table(std::string_view table, std::uint32_t first_line);
/// co_linetable from 3.11 on: Objects/locations.md.
LineStarts decode_locations(std::string_view table, std::uint32_t first_line);

/// `line` as LineStart has it: 0 if it cannot be that of a file.
constexpr int valid_line(std::int64_t line) noexcept {
  return line > 0 && line <= 0x7fffffff ? static_cast<int>(line) : 0;
}

/// A sum of differences; a damaged table cannot make it overflow, since each is less than 2^40 and tables are short.
class LineSum {
 public:
  explicit LineSum(std::uint32_t first) : sum_(first) {}
  void add(std::int64_t difference) noexcept { sum_ += difference; }
  int line() const noexcept { return valid_line(sum_); }

 private:
  std::int64_t sum_;
};

}  // namespace heapprof::symbols::python
