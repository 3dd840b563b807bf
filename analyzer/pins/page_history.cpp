#include "analyzer/pins/page_history.h"

#include <algorithm>
#include <map>

namespace heapprof::pins {
namespace {

using allocators::AllocatorModel;
using allocators::ProcessAllocators;

/// The heap of an arena of glibc; kNoRegion of the heap that brk extends, and of other memory.
std::uint64_t arena_heap_of(const ProcessAllocators& allocators, std::uint64_t address) {
  return allocators.in_brk_heap(address) ? AllocatorModel::kNoRegion : allocators.of(address).trimmed_region(address);
}

}  // namespace

void PageHistory::allocated(std::uint64_t address, std::uint64_t size) {
  if (address == 0 || address >= allocators::kMaxAddress || size >= allocators::kMaxAddress) return;
  const AllocatorModel& model = allocators_.of(address);
  if (!model.is_unmapped_by_free(address, size)) once_held_.add(model.kept_range(address, size));
}

PageRanges PageHistory::returnable(const PageRanges& kept) const {
  std::map<std::uint64_t, std::uint64_t> last_kept;  // by heap: end of its last range
  for (const AddressRange& range : kept) last_kept[arena_heap_of(allocators_, range.begin)] = range.end;
  PageRanges free = difference(once_held_.ranges(), kept);
  std::erase_if(free, [&](const AddressRange& range) {
    const std::uint64_t heap = arena_heap_of(allocators_, range.begin);
    if (heap == AllocatorModel::kNoRegion) return false;
    const auto last = last_kept.find(heap);
    return last == last_kept.end() || range.begin >= last->second;
  });
  return free;
}

}  // namespace heapprof::pins
