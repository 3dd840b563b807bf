// Entries of variable length: a byte with the high bit set, a code and a length in instructions; then what the code
// needs. Only the lines are decoded; columns are skipped.
#include <cstddef>

#include "analyzer/symbols/python/line_starts.h"

namespace heapprof::symbols::python {
namespace {

enum Code : unsigned {
  kOneLine0 = 10,  // columns in two bytes; the line is 0 to 2 after the last one
  kOneLine2 = 12,
  kNoColumns = 13,   // a signed number: the distance in lines
  kLong = 14,        // the same, then three numbers
  kNoLocation = 15,  // no line
};

class Entries {
 public:
  explicit Entries(std::string_view table) : table_(table) {}

  bool at_end() const noexcept { return at_ >= table_.size(); }
  unsigned byte() noexcept { return at_end() ? 0 : static_cast<unsigned char>(table_[at_++]); }
  /// Six bits in each byte, the lowest first; bit 6: more follow.
  std::uint64_t number() noexcept {
    std::uint64_t value = 0;
    unsigned bits = byte();
    value = bits & 63;
    for (unsigned shift = 6; (bits & 64) != 0 && !at_end(); shift += 6) {
      bits = byte();
      if (shift < 36) value |= std::uint64_t{bits & 63} << shift;
    }
    return value;
  }
  std::int64_t signed_number() noexcept {
    const std::uint64_t value = number();
    const auto size = static_cast<std::int64_t>(value >> 1);
    return (value & 1) != 0 ? -size : size;
  }
  /// Skips bytes that begin no entry: damage.
  void find_entry() noexcept {
    while (!at_end() && (static_cast<unsigned char>(table_[at_]) & 0x80) == 0) ++at_;
  }

 private:
  std::string_view table_;
  std::size_t at_ = 0;
};

}  // namespace

LineStarts decode_locations(std::string_view table, std::uint32_t first_line) {
  constexpr std::uint64_t kInstructionBytes = 2;
  LineSum line(first_line);
  std::uint64_t offset = 0;
  LineStarts starts;
  Entries entries(table);
  for (entries.find_entry(); !entries.at_end(); entries.find_entry()) {
    const unsigned head = entries.byte();
    const unsigned code = head >> 3 & 15;
    bool has_line = true;
    if (code == kNoLocation) {
      has_line = false;
    } else if (code == kLong) {
      line.add(entries.signed_number());
      for (int i = 0; i < 3; ++i) entries.number();
    } else if (code == kNoColumns) {
      line.add(entries.signed_number());
    } else if (code >= kOneLine0 && code <= kOneLine2) {
      line.add(code - kOneLine0);
      entries.byte();
      entries.byte();
    } else {
      entries.byte();  // the columns of a short form; the line is the last one
    }
    add_start(starts, offset, has_line ? line.line() : 0);
    offset += ((head & 7) + 1) * kInstructionBytes;
  }
  add_start(starts, offset, 0);
  return starts;
}

}  // namespace heapprof::symbols::python
