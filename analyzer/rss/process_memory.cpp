#include "analyzer/rss/process_memory.h"

#include <algorithm>
#include <utility>

namespace heapprof::rss {
using allocators::AllocatorModel;
using allocators::kMaxAddress;
using allocators::kPageBytes;
using allocators::ProcessAllocators;
using allocators::round_down;
using allocators::round_up;
using trace::MergedEvent;

void OnceHeld::add(const MergedEvent& event, const ProcessAllocators& allocators) {
  switch (event.op()) {
    case Op::kAlloc:
    case Op::kReallocEnd: return allocated(event.address, event.size(), allocators);
    case Op::kMap:
    case Op::kUnmapBegin:
    case Op::kRemapBegin:
    case Op::kRemapEnd: return mapped_anew(event.address, event.size());
    default: return;
  }
}

void OnceHeld::allocated(std::uint64_t address, std::uint64_t size, const ProcessAllocators& allocators) {
  if (address == 0 || address >= kMaxAddress || size >= kMaxAddress) return;
  const AllocatorModel& model = allocators.of(address);
  if (model.is_unmapped_by_free(address, size)) return;
  if (model.allocator() != allocators::Allocator::kGlibc) return pages_.add(model.kept_range(address, size));
  // The block's own pages: the page behind it, which it keeps only for a header, may be of another mapping.
  pages_.add({round_down(address - std::min(address, model.header_bytes(address, size)), kPageBytes),
              round_up(address + model.usable_bytes(address, size), kPageBytes)});
}

void OnceHeld::mapped_anew(std::uint64_t address, std::uint64_t size) {
  if (address >= kMaxAddress) return;
  const std::uint64_t end = address + std::min(size, kMaxAddress - address);
  pages_.remove({round_down(address, kPageBytes), round_up(end, kPageBytes)});
}

replay::LeakVisitor MemoryCollector::blocks() {
  return [this](const replay::LiveBlock& block) { blocks_.push_back({block.address, block.size}); };
}

replay::MappingVisitor MemoryCollector::mappings() {
  return [this](const replay::LiveMapping& mapping) { mappings_.push_back(mapping); };
}

ProcessMemory MemoryCollector::finish(const replay::Analysis& analysis, const replay::Progress& progress) {
  ProcessAllocators allocators(analysis.profile());
  for (const PlacedBlock& block : blocks_) allocators.see_block(block.address, block.size);
  allocators.finish_blocks();
  OnceHeld once_held;
  analysis.for_each_record(
      [&](std::span<const MergedEvent> events) {
        for (const MergedEvent& event : events) once_held.add(event, allocators);
      },
      progress);
  LiveLayout live = lay_out(std::move(blocks_), allocators);
  return {analysis.profile(), std::move(allocators), std::move(live), once_held.ranges(), std::move(mappings_)};
}

}  // namespace heapprof::rss
