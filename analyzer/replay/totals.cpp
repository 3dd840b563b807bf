// What the whole recording allocated, and how long it lived, by stack: Replay::totals() and lives().
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

std::vector<StackLives> Replay::lives() const {
  std::vector<model::BlockLives> by_index;
  for (const model::LongestLife& longest : history_log_->longest_lives()) by_index.push_back({longest, {}});
  for_each_leak([&](const Block& block) {
    if (block.node >= by_index.size()) by_index.resize(block.node + std::size_t{1});
    by_index[block.node].left.add(block.size, block.time);
  });
  std::vector<StackLives> lives;
  for (std::uint32_t index = 0; index < by_index.size(); ++index)
    if (by_index[index] != model::BlockLives{}) lives.push_back({index, by_index[index]});
  return lives;
}

}  // namespace heapprof::replay
