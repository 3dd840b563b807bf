// Costs for each call-tree node, or for each thread, while events are replayed, with the exact composition of the
// peak.
//
// The peak is the first moment of the highest running sum. A growing program has a new peak at every allocation, so
// copying all nodes at each peak would take too long. Instead, the first change of a node after a peak stores what
// the node held at that peak:
//
//   epoch_                 counts the peaks after which a node changed
//   node.epoch == epoch_   the node changed since the peak; peak_bytes and peak_blocks are its values at the peak
//   otherwise              it did not change; its live values are its values at the peak
//
// An allocation that raises the peak invalidates all stored values, so it stores none. Cost: one comparison for each
// event, one cache line for each node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/replay/interval_sums.h"

namespace heapprof::replay {

struct alignas(64) NodeCosts {
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_bytes = 0;   ///< valid while epoch equals the tracker's
  std::uint32_t live_blocks = 0;  ///< a table of 2^32 live blocks would need 200 GB
  std::uint32_t peak_blocks = 0;
  std::uint64_t epoch = 0;
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t temporary = 0;
  std::uint64_t temporary_bytes = 0;
};
static_assert(sizeof(NodeCosts) == 64);

/// Blocks of a node that a realloc replaced. Apart from NodeCosts, whose cache line is full: few events are reallocs.
struct MovedBlocks {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

/// The sums of a node. What is live and the peak stay 0.
inline NodeSums counted_sums(std::uint32_t node, const NodeCosts& costs, const MovedBlocks& moved) noexcept {
  NodeSums one;
  one.node = node;
  one.allocations = costs.allocations;
  one.allocated_bytes = costs.allocated_bytes;
  one.temporary = costs.temporary;
  one.temporary_bytes = costs.temporary_bytes;
  one.moved_blocks = moved.blocks;
  one.moved_bytes = moved.bytes;
  return one;
}

class CostTracker {
 public:
  void prefetch(std::uint32_t node) const noexcept {
    if (node < nodes_.size()) __builtin_prefetch(&nodes_[node], 1);
  }

  /// A block was allocated at `time` (ticks). `allocations`: as EventPosition's; 0: not known.
  void add(std::uint32_t node, std::uint64_t size, std::uint64_t time, std::uint64_t allocations = 0) {
    NodeCosts& costs = at(node);
    const std::uint64_t live = live_bytes_ + size;
    if (live > peak_bytes_) {
      peak_bytes_ = live;
      peak_blocks_ = live_blocks_ + 1;
      peak_time_ = time;
      peak_allocations_ = allocations;
      at_peak_ = true;
    } else {
      about_to_change(costs);
    }
    live_bytes_ = live;
    ++live_blocks_;
    costs.live_bytes += size;
    ++costs.live_blocks;
    costs.allocated_bytes += size;
    ++costs.allocations;
  }

  /// A block was freed.
  void remove(std::uint32_t node, std::uint64_t size, bool temporary) {
    NodeCosts& costs = at(node);
    about_to_change(costs);
    live_bytes_ -= size;
    --live_blocks_;
    costs.live_bytes -= size;
    --costs.live_blocks;
    costs.temporary += temporary;
    costs.temporary_bytes += temporary ? size : 0;
  }

  /// add(), and then remove() of the same block as a temporary one. Below the peak, live sums do not change.
  void add_freed_at_once(std::uint32_t node, std::uint64_t size, std::uint64_t time, std::uint64_t allocations = 0) {
    if (live_bytes_ + size > peak_bytes_) [[unlikely]] {
      add(node, size, time, allocations);
      remove(node, size, true);
      return;
    }
    NodeCosts& costs = at(node);
    ++costs.allocations;
    costs.allocated_bytes += size;
    ++costs.temporary;
    costs.temporary_bytes += size;
  }

  /// A block that was freed was replaced by a realloc.
  void moved(std::uint32_t node, std::uint64_t size) { add_moved(node, size, 1); }

  /// Changes live sums without an allocation, which never makes a peak: a part of a mapping was removed (and left
  /// two, one or no part of it), or was put back because munmap failed.
  void adjust(std::uint32_t node, std::int64_t bytes, std::int64_t blocks) {
    NodeCosts& costs = at(node);
    about_to_change(costs);
    live_bytes_ += static_cast<std::uint64_t>(bytes);
    live_blocks_ += static_cast<std::uint64_t>(blocks);
    costs.live_bytes += static_cast<std::uint64_t>(bytes);
    costs.live_blocks += static_cast<std::uint32_t>(blocks);
  }

  /// Starts a slice: resets all sums except the live ones, which are the new peak.
  void restart(std::uint64_t time) {
    for (NodeCosts& costs : nodes_) {
      costs.allocations = costs.allocated_bytes = 0;
      costs.temporary = costs.temporary_bytes = 0;
    }
    moved_.clear();
    peak_bytes_ = live_bytes_;
    peak_blocks_ = live_blocks_;
    peak_time_ = time;
    peak_allocations_ = 0;
    at_peak_ = true;
  }

  /// Starts an interval (interval_sums.h): resets all sums except the live ones. There is no peak until the next
  /// allocation.
  void begin_interval() {
    restart(0);
    peak_bytes_ = peak_blocks_ = 0;
    at_peak_ = false;
    ++epoch_;
  }
  IntervalPeak peak() const noexcept { return {peak_bytes_, peak_blocks_, peak_time_, peak_allocations_}; }

  /// Adds the sums of an interval that follows.
  void add_interval(const IntervalPeak& peak, const std::vector<NodeSums>& nodes) {
    const bool higher = peak.bytes > peak_bytes_;
    if (higher) {
      peak_bytes_ = peak.bytes;
      peak_blocks_ = peak.blocks;
      peak_time_ = peak.ticks;
      peak_allocations_ = peak.allocations;
      at_peak_ = false;
      ++epoch_;
    }
    for (const NodeSums& sums : nodes) {
      NodeCosts& costs = at(sums.node);
      about_to_change(costs);
      if (higher) {
        costs.peak_bytes += static_cast<std::uint64_t>(sums.peak_bytes);
        costs.peak_blocks += static_cast<std::uint32_t>(sums.peak_blocks);
      }
      live_bytes_ += static_cast<std::uint64_t>(sums.live_bytes);
      live_blocks_ += static_cast<std::uint64_t>(sums.live_blocks);
      costs.live_bytes += static_cast<std::uint64_t>(sums.live_bytes);
      costs.live_blocks += static_cast<std::uint32_t>(sums.live_blocks);
      costs.allocations += sums.allocations;
      costs.allocated_bytes += sums.allocated_bytes;
      costs.temporary += sums.temporary;
      costs.temporary_bytes += sums.temporary_bytes;
      add_moved(sums.node, sums.moved_bytes, sums.moved_blocks);
    }
  }
  /// Blocks that add_interval() counted as temporary, or as moved, are not.
  void take_back_temporary(std::uint32_t node, std::uint64_t size) {
    NodeCosts& costs = at(node);
    --costs.temporary;
    costs.temporary_bytes -= size;
  }
  void take_back_moved(std::uint32_t node, std::uint64_t size) { add_moved(node, 0 - size, ~std::uint64_t{0}); }
  /// Adds only the peak of an interval. The peak's composition is unknown from then on.
  void add_peak(const IntervalPeak& peak) noexcept {
    if (peak.bytes <= peak_bytes_) return;
    peak_bytes_ = peak.bytes;
    peak_blocks_ = peak.blocks;
    peak_time_ = peak.ticks;
    peak_allocations_ = peak.allocations;
    at_peak_ = false;
  }
  /// Forgets what is live. Peak and other sums stay.
  void clear_live() noexcept {
    for (NodeCosts& costs : nodes_) {
      costs.live_bytes = 0;
      costs.live_blocks = 0;
    }
    live_bytes_ = live_blocks_ = 0;
    at_peak_ = false;
  }

  std::uint64_t live_bytes() const noexcept { return live_bytes_; }
  std::uint64_t live_blocks() const noexcept { return live_blocks_; }
  std::uint64_t peak_bytes() const noexcept { return peak_bytes_; }
  std::uint64_t peak_blocks() const noexcept { return peak_blocks_; }
  std::uint64_t peak_time() const noexcept { return peak_time_; }
  /// As EventPosition's; 0: not known, or the peak is at the start of the slice.
  std::uint64_t peak_allocations() const noexcept { return peak_allocations_; }

  std::size_t node_count() const noexcept { return nodes_.size(); }
  MovedBlocks moved_of(std::uint32_t node) const noexcept {
    return node < moved_.size() ? moved_[node] : MovedBlocks{};
  }
  /// The costs of `node` with valid peak_bytes and peak_blocks.
  NodeCosts settled(std::uint32_t node) const noexcept {
    NodeCosts costs = node < nodes_.size() ? nodes_[node] : NodeCosts{};
    if (at_peak_ || costs.epoch != epoch_) {
      costs.peak_bytes = costs.live_bytes;
      costs.peak_blocks = costs.live_blocks;
    }
    return costs;
  }

 private:
  NodeCosts& at(std::uint32_t node) {
    if (node >= nodes_.size()) [[unlikely]]
      nodes_.resize(std::size_t{node} < 32 ? 64 : std::size_t{node} * 2);
    return nodes_[node];
  }

  void add_moved(std::uint32_t node, std::uint64_t bytes, std::uint64_t blocks) {
    if (blocks == 0) return;
    if (node >= moved_.size()) [[unlikely]]
      moved_.resize(std::max<std::size_t>(nodes_.size(), std::size_t{node} + 1));
    moved_[node].bytes += bytes;
    moved_[node].blocks += blocks;
  }

  void about_to_change(NodeCosts& costs) noexcept {
    if (at_peak_) {
      at_peak_ = false;
      ++epoch_;
    }
    if (costs.epoch == epoch_) return;
    costs.epoch = epoch_;
    costs.peak_bytes = costs.live_bytes;
    costs.peak_blocks = costs.live_blocks;
  }

  std::vector<NodeCosts> nodes_;
  std::vector<MovedBlocks> moved_;  ///< by node; may be shorter than nodes_
  std::uint64_t live_bytes_ = 0;
  std::uint64_t live_blocks_ = 0;
  std::uint64_t peak_bytes_ = 0;
  std::uint64_t peak_blocks_ = 0;
  std::uint64_t peak_time_ = 0;
  std::uint64_t peak_allocations_ = 0;
  std::uint64_t epoch_ = 1;
  bool at_peak_ = false;
};

}  // namespace heapprof::replay
