#include "analyzer/rss/live_layout.h"

#include <algorithm>
#include <utility>

namespace heapprof::rss {
namespace {

using allocators::AllocatorModel;
using allocators::kMaxAddress;

/// Adds a range that begins at or after the beginnings of all before, or overlaps the last of them.
void append(PageRanges& ranges, AddressRange range) {
  if (!ranges.empty() && range.begin <= ranges.back().end) {
    ranges.back().end = std::max(ranges.back().end, range.end);
    return;
  }
  if (range.begin < range.end) ranges.push_back(range);
}

}  // namespace

LiveLayout lay_out(std::vector<PlacedBlock> blocks, const allocators::ProcessAllocators& allocators) {
  std::erase_if(blocks, [](const PlacedBlock& block) { return block.address >= kMaxAddress; });
  std::sort(blocks.begin(), blocks.end(), [](const PlacedBlock& a, const PlacedBlock& b) {
    return a.address != b.address ? a.address < b.address : a.size < b.size;
  });
  LiveLayout layout;
  PageRanges kept;
  for (const PlacedBlock& block : blocks) {
    const std::uint64_t size = std::min(block.size, kMaxAddress - block.address);
    const AllocatorModel& model = allocators.of(block.address);
    const std::uint64_t header = std::min(model.header_bytes(block.address, size), block.address);
    append(layout.requested, {block.address, block.address + size});
    append(layout.taken, {block.address - header, block.address + model.usable_bytes(block.address, size)});
    const AddressRange range = model.kept_range(block.address, size);
    // The granules of neighbours are often the same one.
    if (kept.empty() || kept.back() != range) kept.push_back(range);
  }
  blocks = {};
  layout.kept = pins::joined(std::move(kept));
  return layout;
}

}  // namespace heapprof::rss
