#include "analyzer/pins/pinned_memory.h"

#include <utility>

#include "analyzer/pins/pin_groups.h"

namespace heapprof::pins {

using allocators::ProcessAllocators;

void see_blocks(ProcessAllocators& allocators, const std::vector<PinningBlock>& live) {
  for (const PinningBlock& block : live) allocators.see_block(block.address, block.size);
  allocators.finish_blocks();
}

PinnedMemory pinned_memory_of(std::vector<PinningBlock> live, const ProcessAllocators& allocators,
                              const PageHistory& history, std::size_t node_count) {
  PinnedMemory result;
  result.allocator = allocators.main();
  result.note = allocators.note();
  result.kept = find_kept_memory(std::move(live), allocators, node_count);
  result.add_up();
  result.returnable = history.returnable(result.kept.ranges);
  result.returnable_bytes = bytes_of(result.returnable);
  return result;
}

void PinnedMemory::add_up() noexcept {
  pinned_bytes = pins::pinned_bytes(kept.sets);
  usable_bytes = 0;
  for (const LiveSum& sum : kept.by_node) usable_bytes += sum.usable_bytes;
}

PinnedMemory find_pinned_memory(const replay::Analysis& analysis, std::vector<PinningBlock> live,
                                const replay::Progress& progress) {
  ProcessAllocators allocators(analysis.profile());
  see_blocks(allocators, live);
  PageHistory history(allocators);
  analysis.for_each_record(
      [&](std::span<const trace::MergedEvent> events) {
        for (const trace::MergedEvent& event : events) history.add(event);
      },
      progress);
  return pinned_memory_of(std::move(live), allocators, history, analysis.profile().nodes.size());
}

}  // namespace heapprof::pins
