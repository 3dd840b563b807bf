// The trend of each stack that leaks, or of each call site: whether its live bytes are growing, stable or in use.
//
// Time is divided into kParts equal parts (rises.h).
//
//   growing   the lowest sums of the parts rise until the end; there are at least kMinBlocks blocks
//   in use    not growing; more blocks were freed than are left, and none left is older than the longest lifetime
//   stable    everything else: singletons, tables, caches that filled
//
// A leak that only grows while there is load looks stable when the load has ended. So the program's allocations are
// divided into kParts parts, too (set_load): what rises in these is stable, but grew with the load.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/model/rises.h"

namespace heapprof::model {

enum class Growth { kGrowing, kStable, kInUse };

struct LeakTrend {
  static constexpr unsigned kParts = Rises::kParts;
  Rises::Lows low_bytes{};  ///< lowest live sum of each part; last: at the end
  std::uint64_t first_ns = std::numeric_limits<std::uint64_t>::max();  ///< allocation time of the oldest block left
  std::uint64_t last_ns = 0;                                           ///< allocation time of the newest
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();  ///< sizes of the blocks left
  std::uint64_t largest = 0;
  std::uint64_t left_blocks = 0;
  std::uint64_t freed_blocks = 0;
  std::uint64_t longest_life_ns = 0;  ///< longest lifetime of the freed blocks
  unsigned rises = 0;                 ///< parts in which the lowest sum rose
  Growth growth = Growth::kStable;
  bool grew_with_load = false;  ///< rose as growing memory does, but in parts of equal numbers of allocations
  /// When the live sum exceeded its previous maximum by 1/64 the last time: it has not grown since.
  std::uint64_t grew_until_ns = 0;
};

/// The moments that divide the program's allocations into parts of equal number; for LeakHistory::set_load().
using LoadTimes = std::array<std::uint64_t, LeakTrend::kParts - 1>;

inline LoadTimes load_times(const Timeline& timeline) {
  std::uint64_t all = 0;
  for (const Timeline::Bucket& bucket : timeline.buckets) all += bucket.allocations;
  LoadTimes times{};
  times.fill(std::numeric_limits<std::uint64_t>::max());
  std::uint64_t before = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < timeline.buckets.size(); ++i) {
    before += timeline.buckets[i].allocations;
    // The allocations of a bucket are complete when the next one begins.
    while (i + 1 < timeline.buckets.size() && next < times.size() && all != 0 &&
           before * LeakTrend::kParts >= all * (next + 1))
      times[next++] = timeline.buckets[i + 1].start_ns;
  }
  return times;
}

class LeakHistory {
 public:
  /// For the nodes of `profile` that leak. [from_ns, to_ns]: the time in which the program was active.
  LeakHistory(const Profile& profile, std::uint64_t from_ns, std::uint64_t to_ns)
      : to_ns_(std::max(to_ns, from_ns + 1)), begins_(begins_of_parts(from_ns, to_ns_)),
        followed_of_node_(profile.nodes.size(), kNoIndex) {
    for (std::size_t node = 0; node < profile.nodes.size(); ++node) {
      if (profile.nodes[node].costs.leaked_blocks == 0) continue;
      followed_of_node_[node] = static_cast<std::uint32_t>(followed_.size());
      followed_.emplace_back();
    }
  }

  /// For `groups` of stacks, from 0: the number of a group then takes the place of a node.
  LeakHistory(std::size_t groups, std::uint64_t from_ns, std::uint64_t to_ns)
      : to_ns_(std::max(to_ns, from_ns + 1)), begins_(begins_of_parts(from_ns, to_ns_)), followed_of_node_(groups),
        followed_(groups) {
    std::iota(followed_of_node_.begin(), followed_of_node_.end(), 0U);
  }

  // Calls in order of time: set_load(), allocated() and freed() for each event, left() for each block that is not
  // freed, finish().

  /// Without it, nothing grew with the load.
  void set_load(const LoadTimes& times) { load_times_ = times; }

  void allocated(std::uint32_t node, std::uint64_t size, std::uint64_t time_ns) {
    Followed* const stack = find(node);
    if (stack == nullptr) return;
    move_to(*stack, time_ns);
    stack->live += size;
    settle_move(*stack);
    if (stack->live > stack->high + stack->high / kMinShare) {
      stack->high = stack->live;
      stack->trend.grew_until_ns = time_ns;
    }
  }
  /// `moved`: a realloc freed the block; the allocation that replaces it follows. Otherwise a table that a realloc
  /// enlarges would be gone for a moment.
  void freed(std::uint32_t node, std::uint64_t size, std::uint64_t time_ns, std::uint64_t allocated_ns,
             bool moved = false) {
    Followed* const stack = find(node);
    if (stack == nullptr) return;
    move_to(*stack, time_ns);
    stack->live -= size;
    stack->moved = moved;
    if (!moved) lower(*stack);
    ++stack->trend.freed_blocks;
    stack->trend.longest_life_ns = std::max(stack->trend.longest_life_ns, time_ns - std::min(allocated_ns, time_ns));
  }
  void left(std::uint32_t node, std::uint64_t size, std::uint64_t allocated_ns) {
    Followed* const stack = find(node);
    if (stack == nullptr) return;
    LeakTrend& trend = stack->trend;
    ++trend.left_blocks;
    trend.first_ns = std::min(trend.first_ns, allocated_ns);
    trend.last_ns = std::max(trend.last_ns, allocated_ns);
    trend.smallest = std::min(trend.smallest, size);
    trend.largest = std::max(trend.largest, size);
  }
  void finish() {
    for (Followed& stack : followed_) {
      move_to(stack, to_ns_);
      settle_move(stack);
      stack.trend.low_bytes[LeakTrend::kParts] = stack.live;
      classify(stack);
    }
  }

  /// Precondition: the node leaks, and finish() was called.
  const LeakTrend& of(std::uint32_t node) const { return followed_[followed_of_node_[node]].trend; }

 private:
  static constexpr std::uint64_t kMinBlocks = 8;
  static constexpr std::uint64_t kMinShare = 64;  // of LeakTrend::grew_until_ns

  struct Followed {
    LeakTrend trend;
    Rises::Lows low_by_load{};  // as LeakTrend::low_bytes
    std::uint64_t live = 0;
    std::uint64_t high = 0;
    unsigned part = 0;
    unsigned load_part = 0;
    bool moved = false;  // the last event was the free of a block that a realloc moves
  };

  Followed* find(std::uint32_t node) noexcept {
    const std::uint32_t at = followed_of_node_[node];
    return at == kNoIndex ? nullptr : &followed_[at];
  }

  static void lower(Followed& stack) noexcept {
    std::uint64_t& low = stack.trend.low_bytes[stack.part];
    low = std::min(low, stack.live);
    std::uint64_t& low_by_load = stack.low_by_load[stack.load_part];
    low_by_load = std::min(low_by_load, stack.live);
  }

  /// What was moved is live again, here or at another stack.
  static void settle_move(Followed& stack) noexcept {
    if (!stack.moved) return;
    stack.moved = false;
    lower(stack);
  }

  void move_to(Followed& stack, std::uint64_t time_ns) const noexcept {
    const auto part_has_ended = [&] {
      return stack.part + 1 < LeakTrend::kParts && time_ns >= begins_[stack.part + 1];
    };
    if (part_has_ended()) settle_move(stack);
    while (part_has_ended()) stack.trend.low_bytes[++stack.part] = stack.live;
    while (stack.load_part < load_times_.size() && time_ns >= load_times_[stack.load_part])
      stack.low_by_load[++stack.load_part] = stack.live;
  }

  static bool is_growing(const Rises& rises, const LeakTrend& trend) noexcept {
    return rises.until_end() && trend.left_blocks + trend.freed_blocks >= kMinBlocks;
  }

  void classify(Followed& stack) const noexcept {
    LeakTrend& trend = stack.trend;
    const Rises rises = Rises::of(trend.low_bytes);
    trend.rises = rises.count;
    if (is_growing(rises, trend)) {
      trend.growth = Growth::kGrowing;
      return;
    }
    stack.low_by_load.back() = stack.live;
    trend.grew_with_load = is_growing(Rises::of(stack.low_by_load), trend);
    const std::uint64_t oldest = to_ns_ - std::min(trend.first_ns, to_ns_);
    if (trend.freed_blocks > trend.left_blocks && oldest <= trend.longest_life_ns) trend.growth = Growth::kInUse;
  }

  /// When the parts of [from_ns, to_ns) begin.
  static std::array<std::uint64_t, LeakTrend::kParts> begins_of_parts(std::uint64_t from_ns,
                                                                      std::uint64_t to_ns) noexcept {
    std::array<std::uint64_t, LeakTrend::kParts> begins{};
    const std::uint64_t whole = (to_ns - from_ns) / LeakTrend::kParts;
    const std::uint64_t rest = (to_ns - from_ns) % LeakTrend::kParts;
    for (unsigned part = 0; part < LeakTrend::kParts; ++part)
      begins[part] = from_ns + part * whole + (part * rest + LeakTrend::kParts - 1) / LeakTrend::kParts;
    return begins;
  }

  std::uint64_t to_ns_;
  std::array<std::uint64_t, LeakTrend::kParts> begins_;
  LoadTimes load_times_ = no_load();
  std::vector<std::uint32_t> followed_of_node_;
  std::vector<Followed> followed_;

  static LoadTimes no_load() noexcept {
    LoadTimes times{};
    times.fill(std::numeric_limits<std::uint64_t>::max());
    return times;
  }
};

}  // namespace heapprof::model
