// What is known of the lives of blocks, such as all of one stack: the longest life of those that were freed, and
// times and sizes of those that are left at the end. Times are ticks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace heapprof::model {

/// Of the blocks that were freed; 0: there is none, or they were freed at once.
struct LongestLife {
  std::uint64_t ticks = 0;
  std::uint64_t end = 0;  ///< when the block with this life was freed; the first one of several

  void freed(std::uint64_t at, std::uint64_t allocated_at) noexcept {
    if (at <= allocated_at || at - allocated_at <= ticks) return;
    ticks = at - allocated_at;
    end = at;
  }
  LongestLife& operator+=(const LongestLife& other) noexcept {
    if (other.ticks > ticks || (other.ticks == ticks && other.end < end)) *this = other;
    return *this;
  }
  bool operator==(const LongestLife&) const = default;
};

/// The blocks that are left at the end.
struct LeftBlocks {
  std::uint64_t blocks = 0;
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();  ///< allocation of the oldest
  std::uint64_t last = 0;                                           ///< of the newest
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t largest = 0;

  void add(std::uint64_t size, std::uint64_t allocated_at) noexcept {
    ++blocks;
    first = std::min(first, allocated_at);
    last = std::max(last, allocated_at);
    smallest = std::min(smallest, size);
    largest = std::max(largest, size);
  }
  LeftBlocks& operator+=(const LeftBlocks& other) noexcept {
    blocks += other.blocks;
    first = std::min(first, other.first);
    last = std::max(last, other.last);
    smallest = std::min(smallest, other.smallest);
    largest = std::max(largest, other.largest);
    return *this;
  }
  bool operator==(const LeftBlocks&) const = default;
};

struct BlockLives {
  LongestLife longest;
  LeftBlocks left;
  bool operator==(const BlockLives&) const = default;
};

}  // namespace heapprof::model
