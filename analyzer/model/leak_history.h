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
#include <vector>

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

/// The histories of things with live bytes: stacks or call sites, each at a position from 0. Times are ticks, except
/// those of the trends. A call changes one cache line in most cases.
class LeakHistory {
 public:
  /// [from_ns, to_ns]: the time in which the program was active. `clock` is finished, and must outlive this.
  LeakHistory(std::size_t count, std::uint64_t from_ns, std::uint64_t to_ns, const trace::TickClock& clock)
      : clock_(clock), highest_rate_(clock.highest_rate()), to_ns_(std::max(to_ns, from_ns + 1)),
        begins_ns_(begins_of_parts(from_ns, to_ns_)), hot_(count), followed_(count) {
    load_times_ns_.fill(kNever);
    load_times_.fill(kNever);
    for (unsigned part = 0; part < LeakTrend::kParts; ++part) begins_[part] = clock.first_tick_at(begins_ns_[part]);
    for (std::uint32_t at = 0; at < count; ++at) hot_[at].moves_at = moves_at(followed_[at]);
  }

  // Calls in order of time: set_load(), allocated() and freed() for each event, left() for each block that is not
  // freed, finish().

  /// Without it, nothing grew with the load.
  void set_load(const LoadTimes& times) {
    load_times_ns_ = times;
    for (std::size_t i = 0; i < times.size(); ++i)
      load_times_[i] = times[i] == kNever ? kNever : clock_.first_tick_at(times[i]);
    for (std::size_t at = 0; at < hot_.size(); ++at) hot_[at].moves_at = moves_at(followed_[at]);
  }

  void prefetch(std::uint32_t at) const noexcept { __builtin_prefetch(&hot_[at], 1); }

  void allocated(std::uint32_t at, std::uint64_t size, std::uint64_t ticks) {
    Hot& hot = hot_[at];
    if (ticks >= hot.moves_at) [[unlikely]] {
      move_to(at, ticks);
      hot.live += size;
      settle_move(at);
    } else {
      hot.live += size;
    }
    if (hot.live <= hot.grows_above) return;
    hot.grows_above = hot.live + hot.live / kMinShare;
    hot.grew_until = ticks;
  }
  /// `moved`: a realloc freed the block; the allocation that replaces it follows. Otherwise a table that a realloc
  /// enlarges would be gone for a moment.
  void freed(std::uint32_t at, std::uint64_t size, std::uint64_t ticks, std::uint64_t allocated_ticks,
             bool moved = false) {
    Hot& hot = hot_[at];
    if (ticks >= hot.moves_at) [[unlikely]] {
      move_to(at, ticks);
      set_moved(at, false);
    }
    hot.live -= size;
    if (moved) set_moved(at, true);
    else lower(hot);
    ++hot.freed_blocks;
    if (ticks > allocated_ticks && ticks - allocated_ticks > hot.short_life) [[unlikely]]
      lived(at, clock_.to_ns(trace::Ticks{ticks}) - clock_.to_ns(trace::Ticks{allocated_ticks}));
  }
  /// Instead of what freed() counted: the live bytes are known, but not each event.
  void set_frees(std::uint32_t at, std::uint64_t blocks, std::uint64_t longest_life_ns) {
    hot_[at].freed_blocks = blocks;
    followed_[at].trend.longest_life_ns = longest_life_ns;
  }
  void left(std::uint32_t at, std::uint64_t size, std::uint64_t allocated_ticks) {
    Followed& followed = followed_[at];
    LeakTrend& trend = followed.trend;
    ++trend.left_blocks;
    followed.first = std::min(followed.first, allocated_ticks);
    followed.last = std::max(followed.last, allocated_ticks);
    trend.smallest = std::min(trend.smallest, size);
    trend.largest = std::max(trend.largest, size);
  }
  void finish() {
    for (std::uint32_t at = 0; at < hot_.size(); ++at) {
      const Hot& hot = hot_[at];
      Followed& followed = followed_[at];
      LeakTrend& trend = followed.trend;
      move_while(
          at, [&](unsigned part) { return to_ns_ >= begins_ns_[part]; },
          [&](unsigned part) { return to_ns_ >= load_times_ns_[part]; });
      settle_move(at);
      trend.low_bytes[followed.part] = hot.low;
      trend.low_bytes[LeakTrend::kParts] = hot.live;
      followed.low_by_load[followed.load_part] = hot.low_by_load;
      trend.freed_blocks = hot.freed_blocks;
      if (hot.grows_above != 0) trend.grew_until_ns = clock_.to_ns(trace::Ticks{hot.grew_until});
      if (trend.left_blocks != 0) {
        trend.first_ns = clock_.to_ns(trace::Ticks{followed.first});
        trend.last_ns = clock_.to_ns(trace::Ticks{followed.last});
      }
      classify(followed, hot.live);
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
    std::uint64_t low = 0;          ///< of the current part
    std::uint64_t low_by_load = 0;  ///< likewise
    std::uint64_t moves_at = 0;     ///< when a part ends; 0: Followed::moved
    std::uint64_t grows_above = 0;
    std::uint64_t grew_until = 0;
    std::uint64_t freed_blocks = 0;
    std::uint64_t short_life = 0;  ///< ticks that are certainly not longer than LeakTrend::longest_life_ns
  };

  struct Followed {
    LeakTrend trend;
    Rises::Lows low_by_load{};  // as LeakTrend::low_bytes
    unsigned part = 0;
    unsigned load_part = 0;
    bool moved = false;            // the last event was the free of a block that a realloc moves
    std::uint64_t first = kNever;  // ticks: LeakTrend::first_ns and last_ns
    std::uint64_t last = 0;
  };

  static void lower(Hot& hot) noexcept {
    hot.low = std::min(hot.low, hot.live);
    hot.low_by_load = std::min(hot.low_by_load, hot.live);
  }

  /// When the current part of `followed` ends.
  std::uint64_t moves_at(const Followed& followed) const noexcept {
    if (followed.moved) return 0;
    const std::uint64_t part_ends = followed.part + 1 < LeakTrend::kParts ? begins_[followed.part + 1] : kNever;
    return followed.load_part < load_times_.size() ? std::min(part_ends, load_times_[followed.load_part]) : part_ends;
  }
  void set_moved(std::uint32_t at, bool moved) noexcept {
    followed_[at].moved = moved;
    hot_[at].moves_at = moves_at(followed_[at]);
  }
  /// What was moved is live again, here or at another stack.
  void settle_move(std::uint32_t at) noexcept {
    if (!followed_[at].moved) return;
    set_moved(at, false);
    lower(hot_[at]);
  }

  [[gnu::noinline]] void move_to(std::uint32_t at, std::uint64_t ticks) noexcept {
    move_while(
        at, [&](unsigned part) { return ticks >= begins_[part]; },
        [&](unsigned part) { return ticks >= load_times_[part]; });
  }
  /// `has_begun`: whether a part of the time has. `has_ended`: whether a part of the load has.
  template <typename HasBegun, typename HasEnded>
  void move_while(std::uint32_t at, HasBegun&& has_begun, HasEnded&& has_ended) noexcept {
    Hot& hot = hot_[at];
    Followed& followed = followed_[at];
    const auto part_has_ended = [&] { return followed.part + 1 < LeakTrend::kParts && has_begun(followed.part + 1); };
    if (part_has_ended()) settle_move(at);
    while (part_has_ended()) {
      followed.trend.low_bytes[followed.part++] = hot.low;
      hot.low = hot.live;
    }
    while (followed.load_part < load_times_.size() && has_ended(followed.load_part)) {
      followed.low_by_load[followed.load_part++] = hot.low_by_load;
      hot.low_by_load = hot.live;
    }
    hot.moves_at = moves_at(followed);
  }

  [[gnu::noinline]] void lived(std::uint32_t at, std::uint64_t life_ns) noexcept {
    std::uint64_t& longest_ns = followed_[at].trend.longest_life_ns;
    if (life_ns <= longest_ns) return;
    longest_ns = life_ns;
    __extension__ using Wide = unsigned __int128;
    const Wide ticks =
        static_cast<Wide>(longest_ns) * highest_rate_.ticks / std::max<std::uint64_t>(highest_rate_.ns, 1);
    hot_[at].short_life = static_cast<std::uint64_t>(std::min<Wide>(ticks, kNever));
  }

  static bool is_growing(const Rises& rises, const LeakTrend& trend) noexcept {
    return rises.until_end() && trend.left_blocks + trend.freed_blocks >= kMinBlocks;
  }

  void classify(Followed& followed, std::uint64_t live) const noexcept {
    LeakTrend& trend = followed.trend;
    const Rises rises = Rises::of(trend.low_bytes);
    trend.rises = rises.count;
    if (is_growing(rises, trend)) {
      trend.growth = Growth::kGrowing;
      return;
    }
    followed.low_by_load.back() = live;
    trend.grew_with_load = is_growing(Rises::of(followed.low_by_load), trend);
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

  const trace::TickClock& clock_;
  const trace::TickClock::Point highest_rate_;
  const std::uint64_t to_ns_;
  const std::array<std::uint64_t, LeakTrend::kParts> begins_ns_;
  std::array<std::uint64_t, LeakTrend::kParts> begins_{};
  LoadTimes load_times_ns_;
  LoadTimes load_times_;
  std::vector<Hot> hot_;
  std::vector<Followed> followed_;
};

}  // namespace heapprof::model
