#include "analyzer/pins/arena_tops.h"

#include <algorithm>
#include <utility>

#include "analyzer/allocators/glibc.h"

namespace heapprof::pins {
namespace {

using allocators::ProcessAllocators;

/// An arena gets another heap when a block does not fit behind the last one, up to whole pages; ranges are of whole
/// pages, too. Blocks above the threshold are mappings of their own. When the program frees such a mapping, the
/// threshold rises: then a heap may have been left earlier, which nothing shows.
constexpr std::uint64_t kMaxRestOfFull = allocators::Glibc::kMinMmapThreshold + 2 * allocators::kPageBytes;

/// Empty: the memory that brk extends, or that of another allocator.
AddressRange heap_of(const ProcessAllocators& allocators, std::uint64_t address) {
  return allocators.in_brk_heap(address) ? AddressRange{} : allocators.of(address).arena_heap(address);
}

/// The end of what is kept in `heap`; its begin: nothing is.
std::uint64_t kept_end(const PageRanges& kept, const AddressRange& heap) {
  const auto next = std::partition_point(kept.begin(), kept.end(),
                                         [&](const AddressRange& range) { return range.begin < heap.end; });
  return next == kept.begin() ? heap.begin : std::clamp((next - 1)->end, heap.begin, heap.end);
}

}  // namespace

PageRanges arena_tops(const ProcessAllocators& allocators, const PageRanges& once_held, const PageRanges& kept) {
  PageRanges in_heaps;
  for (const AddressRange& range : once_held)
    if (heap_of(allocators, range.begin) != AddressRange{}) in_heaps.push_back(range);
  const PageRanges live = difference(in_heaps, difference(in_heaps, kept));
  if (live.empty()) return in_heaps;
  const AddressRange first = heap_of(allocators, live.front().begin);
  if (first == heap_of(allocators, live.back().end - 1)) {
    const AddressRange below_top{first.begin, kept_end(kept, first)};
    return difference(in_heaps, {below_top});
  }
  // A damaged trace can have a range of more heaps than could be counted; all but the last of these were full.
  PageRanges tops;
  for (std::size_t i = 0; i < in_heaps.size(); ++i) {
    const AddressRange heap = heap_of(allocators, in_heaps[i].end - 1);
    if (i + 1 < in_heaps.size() && in_heaps[i + 1].begin < heap.end) continue;  // not the last range of the heap
    const std::uint64_t top = kept_end(kept, heap);
    if (std::max(in_heaps[i].end, top) + kMaxRestOfFull < heap.end) tops.push_back({top, heap.end});
  }
  return joined(std::move(tops));
}

}  // namespace heapprof::pins
