// Which stacks keep memory together: for each set of stacks, the bytes of the granules in which exactly these have
// live blocks. All figures of `heapprof pins` follow from these sets.
//
// A granule (analyzer/allocators/allocator_model.h) is kept by every stack that has a live block in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "analyzer/allocators/process_allocators.h"
#include "analyzer/pins/page_ranges.h"

namespace heapprof::pins {

/// A live block.
struct PinningBlock {
  std::uint64_t address = 0;
  std::uint64_t size = 0;  ///< as requested
  std::uint32_t node = 0;  ///< its stack: index in Profile::nodes
};

/// Sets of holders (stacks, or groups of stacks), each with a number of bytes.
class HolderSets {
 public:
  /// Adds `bytes` to the set `holders`, which is sorted, without duplicates, and not empty.
  void add(std::span<const std::uint32_t> holders, std::uint64_t bytes);

  std::size_t size() const noexcept { return sets_.size(); }
  std::uint64_t bytes(std::size_t set) const noexcept { return sets_[set].bytes; }
  /// Sorted.
  std::span<const std::uint32_t> holders(std::size_t set) const noexcept {
    return {members_.data() + sets_[set].first, sets_[set].count};
  }

  /// The same bytes by group: `group_of_holder` is indexed by holder. Holders of one group count as one.
  HolderSets grouped(const std::vector<std::uint32_t>& group_of_holder) const;

 private:
  struct Set {
    std::uint64_t bytes = 0;
    std::size_t first = 0;  ///< in members_
    std::size_t count = 0;
  };
  std::vector<Set> sets_;
  std::vector<std::uint32_t> members_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
};

/// What the live blocks of a stack are.
struct LiveSum {
  std::uint64_t requested_bytes = 0;
  std::uint64_t usable_bytes = 0;
  std::uint64_t blocks = 0;
  LiveSum& operator+=(const LiveSum& other) noexcept {
    requested_bytes += other.requested_bytes;
    usable_bytes += other.usable_bytes;
    blocks += other.blocks;
    return *this;
  }
};

struct KeptMemory {
  HolderSets sets;               ///< of nodes
  PageRanges ranges;             ///< everything that is kept
  std::vector<LiveSum> by_node;  ///< by node of the profile
};

/// Finds the memory that the blocks keep, in O(n log n) for n blocks, and memory for n ranges. Blocks beyond the
/// user's address space are left out, and a block ends where the next one begins: sizes in a damaged trace can be
/// anything.
KeptMemory find_kept_memory(std::vector<PinningBlock> blocks, const allocators::ProcessAllocators& allocators,
                            std::size_t node_count);

}  // namespace heapprof::pins
