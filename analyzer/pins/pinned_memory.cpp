#include "analyzer/pins/pinned_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/allocators/glibc.h"
#include "analyzer/pins/pin_groups.h"

namespace heapprof::pins {
namespace {

using allocators::AllocatorModel;
using allocators::ProcessAllocators;

/// How much glibc keeps at the end of a heap: twice the size of the largest mapping that was freed, since large
/// blocks of a program that frees such blocks come from the heap from then on.
class GlibcTrimThreshold {
 public:
  void freed_mapping(std::uint64_t bytes) noexcept {
    if (bytes <= allocators::kGlibcMaxMmapThreshold) bytes_ = std::max(bytes_, 2 * bytes);
  }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::uint64_t bytes_ = allocators::kGlibcTrimBytes;
};

/// A heap of glibc, of which the free end is returned when it is longer than the threshold: the one of brk, or one of
/// an arena.
std::uint64_t heap_of(const ProcessAllocators& allocators, std::uint64_t address) {
  constexpr std::uint64_t kBrkHeap = AllocatorModel::kNoRegion - 1;
  const std::uint64_t region = allocators.of(address).trimmed_region(address);
  return region != AllocatorModel::kNoRegion && allocators.in_brk_heap(address) ? kBrkHeap : region;
}

/// What of the free memory was not returned by the allocator itself.
std::uint64_t returnable(const ProcessAllocators& allocators, const PageRanges& free, const PageRanges& kept,
                         std::uint64_t trim_threshold) {
  std::map<std::uint64_t, std::uint64_t> last_kept;  // by heap: end of its last range
  for (const AddressRange& range : kept) last_kept[heap_of(allocators, range.begin)] = range.end;
  std::map<std::uint64_t, std::uint64_t> ends;  // by heap: free bytes behind the last range
  std::uint64_t bytes = 0;
  for (const AddressRange& range : free) {
    const std::uint64_t heap = heap_of(allocators, range.begin);
    const auto last = last_kept.find(heap);
    const bool is_end = last == last_kept.end() || range.begin >= last->second;
    if (heap != AllocatorModel::kNoRegion && is_end) ends[heap] += range.bytes();
    else bytes += range.bytes();
  }
  for (const auto& [heap, end] : ends) bytes += end > trim_threshold ? allocators::kGlibcTrimBytes : end;
  return bytes;
}

}  // namespace

PinnedMemory find_pinned_memory(const replay::Analysis& analysis, const replay::Progress& progress) {
  const ProcessAllocators allocators(analysis.profile());
  PageCollector once_held;
  GlibcTrimThreshold trim_threshold;
  std::vector<PinningBlock> blocks;
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& event : events) {
          if (event.address >= allocators::kMaxAddress || event.size >= allocators::kMaxAddress) continue;
          if (event.kind == replay::ResolvedKind::kSample) continue;
          const AllocatorModel& model = allocators.of(event.address);
          const bool mapped = model.is_unmapped_by_free(event.address, event.size);
          if (event.kind == replay::ResolvedKind::kAllocation) {
            if (!mapped) once_held.add(model.kept_range(event.address, event.size));
          } else if (mapped) {
            trim_threshold.freed_mapping(event.size);
          }
        }
      },
      progress, {.with_older = true, .visit_leaked = [&](const replay::LiveBlock& block) {
                   blocks.push_back({block.address, block.size, block.node});
                 }});
  PinnedMemory result;
  result.allocator = allocators.main();
  result.note = allocators.note();
  result.kept = find_kept_memory(std::move(blocks), allocators, analysis.profile().nodes.size());
  result.pinned_bytes = pinned_bytes(result.kept.sets);
  for (const LiveSum& live : result.kept.by_node) result.usable_bytes += live.usable_bytes;
  const PageRanges free = difference(once_held.ranges(), result.kept.ranges);
  result.returnable_bytes = returnable(allocators, free, result.kept.ranges, trim_threshold.bytes());
  return result;
}

}  // namespace heapprof::pins
