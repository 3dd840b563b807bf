#include "analyzer/replay/analysis/costs_until_end.h"

#include <cstddef>
#include <vector>

#include "analyzer/replay/interval_sums.h"

namespace heapprof::replay {
namespace {

/// By node, or by thread. What is live stays 0.
std::vector<NodeSums> costs_of(const CostTracker& tracker) {
  std::vector<NodeSums> sums(tracker.node_count());
  for (std::uint32_t node = 0; node < sums.size(); ++node)
    sums[node] = counted_sums(node, tracker.settled(node), tracker.moved_of(node));
  return sums;
}

NodeSums& sums_of(std::vector<NodeSums>& all, std::uint32_t index) {
  if (index >= all.size()) throw trace::FormatError("it has a block of a stack that had none at the moment");
  return all[index];
}

void add_temporary(NodeSums& sums, std::uint64_t size) {
  ++sums.temporary;
  sums.temporary_bytes += size;
}

}  // namespace

bool add_costs_until_end(const Replay& at_moment, const Index& index, const SliceIntervals& later,
                         std::uint64_t ticks_after, Replay& at_end) {
  if (at_moment.has_unselected_realloc(ticks_after)) return false;
  const model::HeapTotals& heap = at_moment.heap();
  IntervalSums sums;
  sums.heap.allocations = heap.allocations;
  sums.heap.allocated_bytes = heap.allocated_bytes;
  sums.heap.temporary_allocations = heap.temporary_allocations;
  sums.heap.implied_frees = heap.implied_frees;
  sums.nodes = costs_of(at_moment.heap_costs());
  sums.threads = costs_of(at_moment.thread_costs());  // empty if they are not needed
  for (std::size_t i = later.first; i < later.end; ++i) {
    const IntervalSums one = index.sums_of(i);
    if (one.heap.implied_frees != 0) return false;
    for (const OlderBlock& block : one.older_temporary) {
      if (block.time >= ticks_after) continue;
      ++sums.heap.temporary_allocations;
      add_temporary(sums_of(sums.nodes, block.node), block.size);
      if (!sums.threads.empty()) add_temporary(sums_of(sums.threads, block.thread), block.size);
    }
    for (const OlderBlock& block : one.older_moved) {
      if (block.time >= ticks_after) continue;
      NodeSums& node = sums_of(sums.nodes, block.node);
      ++node.moved_blocks;
      node.moved_bytes += block.size;
    }
  }
  const std::uint64_t otherwise = heap.implied_frees + at_end.heap().leaked_blocks + at_end.heap().frees;
  if (otherwise > heap.allocations) throw trace::FormatError("its sums and snapshots have different live blocks");
  sums.heap.frees = heap.allocations - otherwise;
  if (at_moment.threads().size() > at_end.threads().size())
    throw trace::FormatError("its snapshots have different threads");
  at_end.add_interval(sums, {});
  return true;
}

}  // namespace heapprof::replay
