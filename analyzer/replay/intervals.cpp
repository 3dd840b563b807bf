// Intervals of a replay: their sums, and how another replay adds them (interval_sums.h).
#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/replay/replay.h"

namespace heapprof::replay {
namespace {

bool has_changed(const CostTracker& tracker, std::uint32_t node, const LiveSums& live) noexcept {
  const NodeCosts costs = tracker.settled(node);
  return costs.allocations != 0 || costs.live_bytes != live.bytes || costs.live_blocks != live.blocks ||
         tracker.moved_of(node).blocks != 0;
}

/// The sums of a node, or of a thread, since `live` were its live sums, which become those of now.
NodeSums sums_of_interval(const CostTracker& tracker, std::uint32_t node, LiveSums& live) {
  const NodeCosts costs = tracker.settled(node);
  NodeSums one = counted_sums(node, costs, tracker.moved_of(node));
  one.live_blocks = std::int64_t{costs.live_blocks} - live.blocks;
  one.live_bytes = static_cast<std::int64_t>(costs.live_bytes - live.bytes);
  if (tracker.peak_bytes() != 0) {
    one.peak_blocks = std::int64_t{costs.peak_blocks} - live.blocks;
    one.peak_bytes = static_cast<std::int64_t>(costs.peak_bytes - live.bytes);
  }
  live = {costs.live_bytes, costs.live_blocks};
  return one;
}

}  // namespace

IntervalSums Replay::end_interval() {
  IntervalSums sums;
  const auto since = [](const auto& now, auto& begin, const auto& field) {
    const std::uint64_t difference = now.*field - begin.*field;
    begin.*field = now.*field;
    return difference;
  };
  for (const auto field : kSummedHeapFields) sums.heap.*field = since(heap_, log_->heap, field);
  for (const auto field : kMappingFields) sums.mappings.*field = since(mappings_, log_->mappings, field);
  sums.heap_peak = heap_costs_.peak();
  sums.mmap_peak = mmap_costs_.peak();
  sums.samples = samples_ - std::exchange(log_->samples, samples_);
  sums.snapshots = snapshots_ - std::exchange(log_->snapshots, snapshots_);
  sums.peak_rss_bytes = std::exchange(peak_rss_bytes_, 0);
  log_->live.resize(heap_costs_.node_count());
  for (std::uint32_t node = 0; node < log_->live.size(); ++node)
    if (has_changed(heap_costs_, node, log_->live[node]))
      sums.nodes.push_back(sums_of_interval(heap_costs_, node, log_->live[node]));
  log_->live_of_threads.resize(threads_.size());
  for (std::uint32_t thread = 0; thread < threads_.size(); ++thread)
    sums.threads.push_back(sums_of_interval(thread_costs_, thread, log_->live_of_threads[thread]));
  add_interval_to_rest(sums.nodes);
  heap_costs_.begin_interval();
  thread_costs_.begin_interval();
  mmap_costs_.begin_interval();

  log_->begin_ticks = now_;
  log_->removed.clear();
  log_->given.clear();
  log_->freed_by_reallocs.clear();
  sums.older_temporary = std::exchange(log_->older_temporary, {});
  sums.older_moved = std::exchange(log_->older_moved, {});
  return sums;
}

void Replay::log_older(const Block& block, bool to_realloc) {
  if (to_realloc) log_->given.emplace(IntervalLog::key_of(block), block);
  else log_->removed.push_back(block);
}

OlderBlocks Replay::take_older_blocks() {
  OlderBlocks older;
  older.freed = std::exchange(log_->removed, {});
  std::map<IntervalLog::Key, Block>& given = log_->given;
  if (!given.empty())
    for (const Block& block : older.freed) given.erase(IntervalLog::key_of(block));
  for (const Block& block : log_->freed_by_reallocs) {
    given.erase(IntervalLog::key_of(block));
    older.freed.push_back(block);
  }
  for (const auto& [key, block] : given) older.given.push_back(block);
  return older;
}

/// What is left of the slice's blocks is counted from now on, if it is not known otherwise.
void Replay::begin_left() {
  if (counts_left_ || filter_.from_ticks == 0) return;
  counts_left_ = true;
  for_each_live([&](const Block& block) {
    if (block.time >= filter_.from_ticks) change_left(block, [&](LeftSums::Sum& sum) { sum.add(block.size); });
  });
}

/// The change of the live bytes, without the frees of blocks from before the slice, is what it leaves.
void Replay::add_to_left(const IntervalSums& sums, const OlderBlocks& older) {
  begin_left();
  if (!counts_left_) return;
  const auto add = [](std::vector<LeftSums::Sum>& left, const std::vector<NodeSums>& changes) {
    for (const NodeSums& change : changes) {
      if (change.node >= left.size()) left.resize(std::size_t{change.node} + 1);
      left[change.node].bytes += static_cast<std::uint64_t>(change.live_bytes);
      left[change.node].blocks += static_cast<std::uint64_t>(change.live_blocks);
    }
  };
  add(left_.nodes, sums.nodes);
  add(left_.threads, sums.threads);
  for (const Block& block : older.freed) {
    if (block.time >= filter_.from_ticks) continue;
    if (block.thread >= sums.threads.size()) throw trace::FormatError("it has a block without a thread");
    change_left(block, [&](LeftSums::Sum& sum) { sum.add(block.size); });
  }
}

void Replay::add_interval(const IntervalSums& sums, const OlderBlocks& older) {
  add_to_left(sums, older);
  added_intervals_ = true;
  for (const auto field : kSummedHeapFields) heap_.*field += sums.heap.*field;
  for (const auto field : kMappingFields) mappings_.*field += sums.mappings.*field;
  heap_costs_.add_interval(sums.heap_peak, sums.nodes);
  if (count_threads_) thread_costs_.add_interval(sums.heap_peak, sums.threads);
  mmap_costs_.add_peak(sums.mmap_peak);
  samples_ += sums.samples;
  snapshots_ += sums.snapshots;
  peak_rss_bytes_ = std::max(peak_rss_bytes_, sums.peak_rss_bytes);
  if (added_threads_.size() < sums.threads.size()) added_threads_.resize(sums.threads.size());
  for (std::size_t i = 0; i < sums.threads.size(); ++i) {
    added_threads_[i].allocations += sums.threads[i].allocations;
    added_threads_[i].allocated_bytes += sums.threads[i].allocated_bytes;
  }
  // A block from before the slice is neither temporary nor moved (count_free(), count_move()).
  for (const OlderBlock& block : sums.older_temporary) {
    if (block.time >= filter_.from_ticks) continue;
    --heap_.temporary_allocations;
    heap_costs_.take_back_temporary(block.node, block.size);
    if (count_threads_) thread_costs_.take_back_temporary(block.thread, block.size);
  }
  for (const OlderBlock& block : sums.older_moved)
    if (block.time < filter_.from_ticks) heap_costs_.take_back_moved(block.node, block.size);
}

}  // namespace heapprof::replay
