// Where live blocks are, by their allocator's rules: the bytes that were requested, the bytes that the blocks take,
// and the memory that they keep from being returned.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/allocators/process_allocators.h"
#include "analyzer/pins/page_ranges.h"

namespace heapprof::rss {

using pins::PageRanges;

/// A live block.
struct PlacedBlock {
  std::uint64_t address = 0;
  std::uint64_t size = 0;  ///< as requested
};

/// Each list is sorted, without overlap. Blocks within a block (of a custom pool) count once.
struct LiveLayout {
  PageRanges requested;  ///< bytes
  PageRanges taken;      ///< bytes: with headers, and up to the usable size; contains `requested`
  PageRanges kept;       ///< whole pages; contains `taken`
};

/// Blocks beyond the user's address space are left out; a block ends there at the latest. Sorts, and takes memory for
/// four ranges for each block.
LiveLayout lay_out(std::vector<PlacedBlock> blocks, const allocators::ProcessAllocators& allocators);

}  // namespace heapprof::rss
