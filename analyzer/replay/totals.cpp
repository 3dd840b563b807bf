// Replay::totals(): what the whole recording allocated, by stack.
#include <algorithm>

#include "analyzer/replay/replay.h"

namespace heapprof::replay {
namespace {

/// The sums of the tracker, and the blocks that it knows as live.
void add_tracker(const CostTracker& tracker, std::vector<model::StackTotals>& totals) {
  totals.resize(std::max(totals.size(), tracker.node_count()));
  for (std::uint32_t node = 0; node < tracker.node_count(); ++node) {
    const NodeCosts costs = tracker.settled(node);
    totals[node] += {costs.allocations, costs.allocated_bytes, tracker.moved_of(node).blocks, costs.live_blocks};
  }
}

}  // namespace

/// Precondition: the trackers have the sums of the interval.
void Replay::add_interval_to_rest(const std::vector<NodeSums>& heap) {
  for (const NodeSums& one : heap)
    add_rest(rest_.heap, one.node, {one.allocations, one.allocated_bytes, one.moved_blocks, 0});
  for (std::uint32_t node = 0; node < mmap_costs_.node_count(); ++node)
    if (const NodeCosts costs = mmap_costs_.settled(node); costs.allocations != 0)
      add_rest(rest_.mmap, node, {costs.allocations, costs.allocated_bytes, 0, 0});
}

RecordingTotals Replay::totals() const {
  RecordingTotals totals = rest_;
  add_tracker(heap_costs_, totals.heap);
  add_tracker(mmap_costs_, totals.mmap);
  for_each_live([&](const Block& block) {
    if ((block.thread & kNotSelected) != 0) add_rest(totals.heap, block.node, {0, 0, 0, 1});
  });
  mapping_table_.for_each([&](const Region& region) {
    if ((region.flags & kNotSelected) != 0 && (region.flags & kMapReserve) == 0)
      add_rest(totals.mmap, region.node, {0, 0, 0, 1});
  });
  return totals;
}

}  // namespace heapprof::replay
