#include "analyzer/pins/page_history.h"

#include <algorithm>
#include <map>

namespace heapprof::pins {
namespace {

using allocators::AllocatorModel;
using allocators::ProcessAllocators;

/// A heap of glibc, of which the free end is returned when it is longer than the threshold: the one of brk, or one of
/// an arena.
std::uint64_t heap_of(const ProcessAllocators& allocators, std::uint64_t address) {
  constexpr std::uint64_t kBrkHeap = AllocatorModel::kNoRegion - 1;
  const std::uint64_t region = allocators.of(address).trimmed_region(address);
  return region != AllocatorModel::kNoRegion && allocators.in_brk_heap(address) ? kBrkHeap : region;
}

}  // namespace

void PageHistory::allocated(std::uint64_t address, std::uint64_t size) {
  if (address == 0 || address >= allocators::kMaxAddress || size >= allocators::kMaxAddress) return;
  const AllocatorModel& model = allocators_.of(address);
  if (!model.is_unmapped_by_free(address, size)) once_held_.add(model.kept_range(address, size));
  else if (model.allocator() == allocators::Allocator::kGlibc) mappings_[address] = size;
}

void PageHistory::freed(std::uint64_t address) {
  const auto mapping = mappings_.find(address);
  if (mapping == mappings_.end()) return;
  if (mapping->second <= allocators::kGlibcMaxMmapThreshold)
    trim_threshold_ = std::max(trim_threshold_, 2 * mapping->second);
  mappings_.erase(mapping);
}

std::uint64_t PageHistory::returnable_bytes(const PageRanges& kept) const {
  std::map<std::uint64_t, std::uint64_t> last_kept;  // by heap: end of its last range
  for (const AddressRange& range : kept) last_kept[heap_of(allocators_, range.begin)] = range.end;
  std::map<std::uint64_t, std::uint64_t> ends;  // by heap: free bytes behind the last range
  std::uint64_t bytes = 0;
  for (const AddressRange& range : difference(once_held_.ranges(), kept)) {
    const std::uint64_t heap = heap_of(allocators_, range.begin);
    const auto last = last_kept.find(heap);
    const bool is_end = last == last_kept.end() || range.begin >= last->second;
    if (heap != AllocatorModel::kNoRegion && is_end) ends[heap] += range.bytes();
    else bytes += range.bytes();
  }
  for (const auto& [heap, end] : ends) bytes += end > trim_threshold_ ? allocators::kGlibcTrimBytes : end;
  return bytes;
}

}  // namespace heapprof::pins
