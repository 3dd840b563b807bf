// The trend of each stack that leaks, or of each call site: whether its live bytes are growing, stable or in use.
//
// The live bytes count at the ends of the steps of the profile's timeline, of which there are at most 1,024: memory
// that comes and goes within a step does not count. The steps in which the program allocated are divided into kParts
// parts (rises.h); a part has the live bytes at its begin, and those at the end of each of its steps but the last.
//
//   growing   the lowest sums of the parts rise until the end; there are at least kMinBlocks blocks
//   in use    not growing; more blocks were freed than are left, and none left is older than the longest lifetime
//   stable    everything else: singletons, tables, caches that filled
//
// A leak that only grows while there is load looks stable when the load has ended. So the program's allocations are
// divided into kParts parts, too: what rises in these is stable, but grew with the load.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "analyzer/model/block_lives.h"
#include "analyzer/model/profile.h"
#include "analyzer/model/rises.h"
#include "analyzer/trace/events/tick_clock.h"

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
  /// The end of the step in which the live sum exceeded its previous maximum by 1/64 the last time: it has not grown
  /// since.
  std::uint64_t grew_until_ns = 0;
  bool operator==(const LeakTrend&) const = default;
};

/// The steps of a timeline, and how parts consist of them.
struct LeakSteps {
  /// For each part the number of its first step. A part without a step of its own has the live bytes at its begin.
  using Begins = std::array<std::uint32_t, LeakTrend::kParts>;

  std::uint64_t start_ticks = 0;  ///< begin of step 0
  std::uint64_t width_ticks = 1;
  std::uint64_t end_ns = 0;  ///< of the profile's time, which ends within a step
  std::uint32_t to = 0;      ///< the step after the last one in which the program allocated
  Begins by_time{};
  Begins by_load{};  ///< parts with equal numbers of allocations

  /// `start_ticks`, `width_ticks`: of the timeline's buckets.
  static LeakSteps of(const Timeline& timeline, std::uint64_t start_ticks, std::uint64_t width_ticks,
                      std::uint64_t end_ns) {
    const std::vector<Timeline::Bucket>& buckets = timeline.buckets;
    LeakSteps steps{start_ticks, std::max<std::uint64_t>(width_ticks, 1), end_ns};
    std::uint32_t from = 0;
    std::uint64_t all = 0;
    for (std::uint32_t i = 0; i < buckets.size(); ++i) {
      if (buckets[i].allocations == 0) continue;
      if (all == 0) from = i;
      all += buckets[i].allocations;
      steps.to = i + 1;
    }
    // Idle time before the first allocation and after the last one would hide growth.
    for (std::uint32_t part = 0; part < LeakTrend::kParts; ++part)
      steps.by_time[part] =
          static_cast<std::uint32_t>(from + std::uint64_t{steps.to - from} * part / LeakTrend::kParts);
    // The allocations of a step are complete at its end.
    std::uint64_t before = 0;
    std::uint32_t step = 0;
    for (std::uint32_t part = 0; part < LeakTrend::kParts; ++part) {
      while (step < buckets.size() && before * LeakTrend::kParts < all * part) before += buckets[step++].allocations;
      steps.by_load[part] = part == 0 ? from : step;
    }
    return steps;
  }

  std::uint64_t step_at(std::uint64_t ticks) const noexcept {
    return ticks <= start_ticks ? 0 : (ticks - start_ticks) / width_ticks;
  }
};

/// The histories of things with live bytes: stacks or call sites, each at a position from 0. Times are ticks, except
/// those of the trends. An event changes one cache line in most cases.
class LeakHistory {
 public:
  /// `clock` is finished, and must outlive this.
  LeakHistory(std::size_t count, const LeakSteps& steps, const trace::TickClock& clock)
      : clock_(clock), steps_(steps), hot_(count), followed_(count) {
    for (Hot& hot : hot_) hot.settles_at = steps_.start_ticks;
  }

  // Calls in order of time: allocated() and freed() for each event and left() for each block that is not freed; or
  // changed() for each step with a change, and add_lives(). Then finish().

  void prefetch(std::uint32_t at) const noexcept { __builtin_prefetch(&hot_[at], 1); }

  void allocated(std::uint32_t at, std::uint64_t size, std::uint64_t ticks) {
    Hot& hot = hot_[at];
    if (ticks >= hot.settles_at) [[unlikely]]
      settle(at, steps_.step_at(ticks));
    hot.live += size;
  }
  void freed(std::uint32_t at, std::uint64_t size, std::uint64_t ticks, std::uint64_t allocated_ticks) {
    Hot& hot = hot_[at];
    if (ticks >= hot.settles_at) [[unlikely]]
      settle(at, steps_.step_at(ticks));
    hot.live -= size;
    ++hot.freed_blocks;
    hot.longest.freed(ticks, allocated_ticks);
  }
  void left(std::uint32_t at, std::uint64_t size, std::uint64_t allocated_ticks) {
    followed_[at].left.add(size, allocated_ticks);
  }

  /// The live bytes changed by `bytes` in this step; steps ascend.
  void changed(std::uint32_t at, std::int64_t bytes, std::uint32_t step) {
    settle(at, step);
    hot_[at].live += static_cast<std::uint64_t>(bytes);
  }
  void add_lives(std::uint32_t at, const BlockLives& lives, std::uint64_t freed_blocks) {
    hot_[at].longest += lives.longest;
    hot_[at].freed_blocks += freed_blocks;
    followed_[at].left += lives.left;
  }

  void finish() {
    for (std::uint32_t at = 0; at < hot_.size(); ++at) {
      settle(at, kNever);
      const Hot& hot = hot_[at];
      Followed& followed = followed_[at];
      LeakTrend& trend = followed.trend;
      trend.low_bytes = followed.low;
      trend.low_bytes.back() = followed.low_by_load.back() = hot.live;
      trend.freed_blocks = hot.freed_blocks;
      trend.longest_life_ns = to_ns(hot.longest.end) - to_ns(hot.longest.end - hot.longest.ticks);
      if (hot.grows_above != 0) trend.grew_until_ns = ns_of(followed.grew_until);
      trend.left_blocks = followed.left.blocks;
      trend.smallest = followed.left.smallest;
      trend.largest = followed.left.largest;
      if (trend.left_blocks != 0) {
        trend.first_ns = to_ns(followed.left.first);
        trend.last_ns = to_ns(followed.left.last);
      }
      classify(followed);
    }
  }

  /// After finish(): the trend becomes this one.
  void set(std::uint32_t at, const LeakTrend& trend) { followed_[at].trend = trend; }
  /// Precondition: finish() was called, or set().
  const LeakTrend& of(std::uint32_t at) const { return followed_[at].trend; }

 private:
  static constexpr std::uint64_t kMinBlocks = 8;
  static constexpr std::uint64_t kMinShare = 64;  // of LeakTrend::grew_until_ns
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  /// What events change.
  struct alignas(64) Hot {
    std::uint64_t live = 0;
    std::uint64_t settles_at = 0;  ///< begin of the step Followed::next, in ticks
    std::uint64_t grows_above = 0;
    std::uint64_t freed_blocks = 0;
    LongestLife longest;
  };

  struct Followed {
    Followed() noexcept {
      low.fill(kNever);
      low_by_load.fill(kNever);
    }
    LeakTrend trend;
    Rises::Lows low;
    Rises::Lows low_by_load;
    std::uint64_t next = 0;        ///< the live bytes before this step are not known yet
    std::uint64_t grew_until = 0;  ///< step before which they exceeded Hot::grows_above
    unsigned part = 0;             ///< the latest that began before `next`
    unsigned load_part = 0;
    LeftBlocks left;
  };

  /// The live bytes have been the same before each step from Followed::next to `last`.
  [[gnu::noinline]] void settle(std::uint32_t at, std::uint64_t last) noexcept {
    Hot& hot = hot_[at];
    Followed& followed = followed_[at];
    const std::uint64_t first = followed.next;
    if (last < first) return;
    if (hot.live > hot.grows_above) {
      hot.grows_above = hot.live + hot.live / kMinShare;
      followed.grew_until = first;
    }
    lower(followed.low, followed.part, steps_.by_time, first, last, hot.live);
    lower(followed.low_by_load, followed.load_part, steps_.by_load, first, last, hot.live);
    if (last == kNever) return;
    followed.next = last + 1;
    hot.settles_at = steps_.start_ticks + followed.next * steps_.width_ticks;
  }
  static void lower(Rises::Lows& low, unsigned& part, const LeakSteps::Begins& begins, std::uint64_t first,
                    std::uint64_t last, std::uint64_t live) noexcept {
    for (unsigned i = part; i < LeakTrend::kParts && begins[i] <= last; ++i) {
      part = i;
      const std::uint64_t own_end = std::uint64_t{begins[i]} + 1;
      const std::uint64_t end = i + 1 == LeakTrend::kParts ? kNever : std::max<std::uint64_t>(own_end, begins[i + 1]);
      if (first < end) low[i] = std::min(low[i], live);
    }
  }

  std::uint64_t to_ns(std::uint64_t ticks) const { return clock_.to_ns(trace::Ticks{ticks}); }
  /// When the step begins.
  std::uint64_t ns_of(std::uint64_t step) const {
    return std::min(to_ns(steps_.start_ticks + step * steps_.width_ticks), steps_.end_ns);
  }

  static bool is_growing(const Rises& rises, const LeakTrend& trend) noexcept {
    return rises.until_end() && trend.left_blocks + trend.freed_blocks >= kMinBlocks;
  }

  void classify(Followed& followed) const {
    LeakTrend& trend = followed.trend;
    const Rises rises = Rises::of(trend.low_bytes);
    trend.rises = rises.count;
    if (is_growing(rises, trend)) {
      trend.growth = Growth::kGrowing;
      return;
    }
    trend.grew_with_load = is_growing(Rises::of(followed.low_by_load), trend);
    const std::uint64_t to_ns = ns_of(steps_.to);
    const std::uint64_t oldest = to_ns - std::min(trend.first_ns, to_ns);
    if (trend.freed_blocks > trend.left_blocks && oldest <= trend.longest_life_ns) trend.growth = Growth::kInUse;
  }

  const trace::TickClock& clock_;
  const LeakSteps steps_;
  std::vector<Hot> hot_;
  std::vector<Followed> followed_;
};

}  // namespace heapprof::model
