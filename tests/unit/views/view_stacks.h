// Stacks of a test with the names of their views' rows.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/views/rows.h"
#include "tests/unit/findings/known_stacks.h"

namespace heapprof::test {

/// KnownStacks with the frames and helpers that views need. Stacks are added before frames() is called.
class ViewStacks : public KnownStacks {
 public:
  /// A block of `size` bytes that was never freed.
  void leak(const std::vector<std::string>& frames, std::uint64_t size) { add(frames, 1, size, 1); }
};

/// By name, the leaked bytes of a row itself and in total.
using NamedRows = std::map<std::string, std::pair<std::uint64_t, std::uint64_t>>;

inline NamedRows named(const findings::CodeFrames& frames, const std::vector<views::Row>& rows) {
  NamedRows result;
  for (const views::Row& row : rows) {
    auto& sums = result[row.frame.exists() ? frames.at(row.frame).name : "(no frames)"];
    sums.first += row.self.leaked_bytes;
    sums.second += row.total.leaked_bytes;
  }
  return result;
}

}  // namespace heapprof::test
