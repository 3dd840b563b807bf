#include "analyzer/pins/pinned_memory.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/allocators/glibc.h"
#include "analyzer/pins/pin_groups.h"

namespace heapprof::pins {
namespace {

using allocators::AllocatorModel;
using allocators::ProcessAllocators;

/// What allocations and frees up to the moment show: which granules once held a block, and how much glibc keeps at
/// the free end of a heap. That is twice the size of the largest mapping that was freed, since large blocks of a
/// program that frees such blocks come from the heap from then on.
class History {
 public:
  explicit History(const ProcessAllocators& allocators) : allocators_(allocators) {}

  void add(const trace::MergedEvent& event) {
    switch (event.op()) {
      case Op::kAlloc:
      case Op::kReallocEnd: return allocated(event.address, event.size());
      case Op::kFree:
      case Op::kFreeStack:
      case Op::kReallocBegin:
        if (event.address % allocators::kPageBytes == allocators::kGlibcMappedOffset) freed(event.address);
        return;
      default: return;
    }
  }

  PageRanges once_held() const { return once_held_.ranges(); }
  std::uint64_t trim_threshold() const noexcept { return trim_threshold_; }

 private:
  void allocated(std::uint64_t address, std::uint64_t size) {
    if (address == 0 || address >= allocators::kMaxAddress || size >= allocators::kMaxAddress) return;
    const AllocatorModel& model = allocators_.of(address);
    if (!model.is_unmapped_by_free(address, size)) once_held_.add(model.kept_range(address, size));
    else if (model.allocator() == allocators::Allocator::kGlibc) mappings_[address] = size;
  }

  void freed(std::uint64_t address) {
    const auto mapping = mappings_.find(address);
    if (mapping == mappings_.end()) return;
    if (mapping->second <= allocators::kGlibcMaxMmapThreshold)
      trim_threshold_ = std::max(trim_threshold_, 2 * mapping->second);
    mappings_.erase(mapping);
  }

  const ProcessAllocators& allocators_;
  PageCollector once_held_;
  std::unordered_map<std::uint64_t, std::uint64_t> mappings_;  // glibc's live ones: size by address
  std::uint64_t trim_threshold_ = allocators::kGlibcTrimBytes;
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

PinnedMemory find_pinned_memory(const replay::Analysis& analysis, std::vector<PinningBlock> live,
                                const replay::Progress& progress) {
  ProcessAllocators allocators(analysis.profile());
  for (const PinningBlock& block : live) allocators.see_block(block.address, block.size);
  allocators.finish_blocks();
  History history(allocators);
  analysis.for_each_record(
      [&](std::span<const trace::MergedEvent> events) {
        for (const trace::MergedEvent& event : events) history.add(event);
      },
      progress);
  PinnedMemory result;
  result.allocator = allocators.main();
  result.note = allocators.note();
  result.kept = find_kept_memory(std::move(live), allocators, analysis.profile().nodes.size());
  result.pinned_bytes = pinned_bytes(result.kept.sets);
  for (const LiveSum& sum : result.kept.by_node) result.usable_bytes += sum.usable_bytes;
  const PageRanges free = difference(history.once_held(), result.kept.ranges);
  result.returnable_bytes = returnable(allocators, free, result.kept.ranges, history.trim_threshold());
  return result;
}

}  // namespace heapprof::pins
