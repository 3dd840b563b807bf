// The innermost of many nested address ranges that contains an address.
//
// Add the ranges, outer ones before the inner ones that they contain. build() splits them into disjoint pieces, each
// with the value of its innermost range, so that find() is a binary search. If two ranges overlap without nesting, as
// in damaged files only, the one that starts later takes precedence.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace heapprof::symbols {

class IntervalMap {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  /// Gives [low, high) this value. Ignores empty and reversed ranges.
  void add(std::uint64_t low, std::uint64_t high, std::uint32_t value) {
    if (low < high) ranges_.push_back({low, high, value});
  }

  std::size_t size() const { return ranges_.size(); }

  void build() {
    std::stable_sort(ranges_.begin(), ranges_.end(),
                     [](const Range& a, const Range& b) { return a.low != b.low ? a.low < b.low : a.high > b.high; });
    pieces_.clear();
    std::vector<Range> open;  // innermost last
    const auto close_until = [&](std::uint64_t address) {
      while (!open.empty() && open.back().high <= address) {
        const std::uint64_t end = open.back().high;
        while (!open.empty() && open.back().high <= end) open.pop_back();
        begin_piece(end, open.empty() ? kNone : open.back().value);
      }
    };
    for (const Range& range : ranges_) {
      close_until(range.low);
      begin_piece(range.low, range.value);
      open.push_back(range);
    }
    close_until(std::numeric_limits<std::uint64_t>::max());
    ranges_.clear();
    ranges_.shrink_to_fit();
  }

  /// After build(): the value of the innermost range that contains `address`, or kNone.
  std::uint32_t find(std::uint64_t address) const {
    const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), address,
                                        [](std::uint64_t a, const Piece& piece) { return a < piece.start; });
    return after == pieces_.begin() ? kNone : std::prev(after)->value;
  }

 private:
  struct Range {
    std::uint64_t low, high;
    std::uint32_t value;
  };
  struct Piece {
    std::uint64_t start;  ///< ends at the start of the next piece
    std::uint32_t value;
  };

  void begin_piece(std::uint64_t start, std::uint32_t value) {
    if (!pieces_.empty() && pieces_.back().start == start) {
      pieces_.back().value = value;
    } else {
      pieces_.push_back({start, value});
    }
  }

  std::vector<Range> ranges_;
  std::vector<Piece> pieces_;
};

}  // namespace heapprof::symbols
