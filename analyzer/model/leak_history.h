// The trend of each stack that leaks: whether its live bytes are growing, stable or in use.
//
// Time is divided into kParts equal parts. For each part only the lowest live sum of the stack counts: memory that
// comes and goes does not raise it, a leak raises it part by part.
//
//   growing   the lowest sum rose in at least kMinRises parts, the last time in the last quarter; there are at least
//             kMinBlocks blocks, and most of the sum is still live at the end
//   in use    not growing; more blocks were freed than are left, and none left is older than the longest lifetime
//   stable    everything else: singletons, tables, caches that filled
//
// Leaks are ranked by bytes times rank_weight(). Memory: one LeakTrend for each stack that leaks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "analyzer/model/profile.h"

namespace heapprof::model {

enum class Growth { kGrowing, kStable, kInUse };

struct LeakTrend {
  static constexpr unsigned kParts = 16;
  std::array<std::uint64_t, kParts + 1> low_bytes{};  ///< lowest live sum of each part; last: at the end
  std::uint64_t first_ns = std::numeric_limits<std::uint64_t>::max();  ///< allocation time of the oldest block left
  std::uint64_t last_ns = 0;                                           ///< allocation time of the newest
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();  ///< sizes of the blocks left
  std::uint64_t largest = 0;
  std::uint64_t left_blocks = 0;
  std::uint64_t freed_blocks = 0;
  std::uint64_t longest_life_ns = 0;  ///< longest lifetime of the freed blocks
  unsigned rises = 0;                 ///< parts in which the lowest sum rose
  Growth growth = Growth::kStable;
};

/// The weight of `bytes` in a ranking: a leak comes before stable memory of its size, but a few growing bytes do not
/// come before everything else.
constexpr double rank_weight(Growth growth, std::uint64_t bytes) noexcept {
  constexpr double kGrowthWeight = 64;
  const double weight = growth == Growth::kGrowing ? kGrowthWeight : growth == Growth::kInUse ? 1 / kGrowthWeight : 1;
  return static_cast<double>(bytes) * weight;
}

class LeakHistory {
 public:
  /// For the nodes of `profile` that leak. [from_ns, to_ns]: the time in which the program was active.
  LeakHistory(const Profile& profile, std::uint64_t from_ns, std::uint64_t to_ns)
      : from_ns_(from_ns), to_ns_(std::max(to_ns, from_ns + 1)), followed_of_node_(profile.nodes.size(), kNoIndex) {
    for (std::size_t node = 0; node < profile.nodes.size(); ++node) {
      if (profile.nodes[node].costs.leaked_blocks == 0) continue;
      followed_of_node_[node] = static_cast<std::uint32_t>(followed_.size());
      followed_.emplace_back();
    }
  }

  // Calls in order of time: allocated() and freed() for each event, left() for each block that is not freed,
  // finish().

  void allocated(std::uint32_t node, std::uint64_t size, std::uint64_t time_ns) {
    if (Followed* const stack = find(node)) {
      move_to(*stack, time_ns);
      stack->live += size;
    }
  }
  void freed(std::uint32_t node, std::uint64_t size, std::uint64_t time_ns, std::uint64_t allocated_ns) {
    Followed* const stack = find(node);
    if (stack == nullptr) return;
    move_to(*stack, time_ns);
    stack->live -= size;
    std::uint64_t& low = stack->trend.low_bytes[stack->part];
    low = std::min(low, stack->live);
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
      stack.trend.low_bytes[LeakTrend::kParts] = stack.live;
      classify(stack.trend);
    }
  }

  /// Precondition: the node leaks, and finish() was called.
  const LeakTrend& of(std::uint32_t node) const { return followed_[followed_of_node_[node]].trend; }

 private:
  static constexpr unsigned kMinRises = 4;
  static constexpr std::uint64_t kMinBlocks = 8;
  static constexpr std::uint64_t kMinShare = 64;  // a rise is at least this part of what is live at the end

  struct Followed {
    LeakTrend trend;
    std::uint64_t live = 0;
    unsigned part = 0;
  };

  Followed* find(std::uint32_t node) noexcept {
    const std::uint32_t at = followed_of_node_[node];
    return at == kNoIndex ? nullptr : &followed_[at];
  }

  void move_to(Followed& stack, std::uint64_t time_ns) const noexcept {
    const std::uint64_t at = std::clamp(time_ns, from_ns_, to_ns_) - from_ns_;
    __extension__ using Wide = unsigned __int128;
    const auto part = static_cast<unsigned>(
        std::min<Wide>(static_cast<Wide>(at) * LeakTrend::kParts / (to_ns_ - from_ns_), LeakTrend::kParts - 1));
    while (stack.part < part) stack.trend.low_bytes[++stack.part] = stack.live;
  }

  void classify(LeakTrend& trend) const noexcept {
    const std::uint64_t end = trend.low_bytes[LeakTrend::kParts];
    const std::uint64_t min_rise = std::max<std::uint64_t>(end / kMinShare, 1);
    std::uint64_t high = trend.low_bytes[0];
    unsigned latest = 0;
    for (unsigned part = 1; part <= LeakTrend::kParts; ++part) {
      if (trend.low_bytes[part] < high + min_rise) continue;
      high = trend.low_bytes[part];
      ++trend.rises;
      latest = part;
    }
    if (trend.rises >= kMinRises && latest > LeakTrend::kParts * 3 / 4 &&
        trend.left_blocks + trend.freed_blocks >= kMinBlocks && end >= high - high / 4) {
      trend.growth = Growth::kGrowing;
      return;
    }
    const std::uint64_t oldest = to_ns_ - std::min(trend.first_ns, to_ns_);
    if (trend.freed_blocks > trend.left_blocks && oldest <= trend.longest_life_ns) trend.growth = Growth::kInUse;
  }

  std::uint64_t from_ns_;
  std::uint64_t to_ns_;
  std::vector<std::uint32_t> followed_of_node_;
  std::vector<Followed> followed_;
};

}  // namespace heapprof::model
