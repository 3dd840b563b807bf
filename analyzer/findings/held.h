// What a stack holds of the cost that is ranked: its blocks that were live at the end, or at the peak.
#pragma once

#include <cstdint>
#include <vector>

namespace heapprof::findings {

struct Held {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  Held& operator+=(const Held& other) noexcept {
    bytes += other.bytes;
    blocks += other.blocks;
    return *this;
  }
  /// Precondition: `other` is a part of this.
  Held operator-(const Held& other) const noexcept { return {bytes - other.bytes, blocks - other.blocks}; }
  friend bool operator==(const Held&, const Held&) = default;
};

/// By node of the profile. Stacks that suppressions match hold nothing.
using HeldByNode = std::vector<Held>;

}  // namespace heapprof::findings
