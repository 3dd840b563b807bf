// TickClock::to_ns() for many times of which most are near the one before: it remembers the samples around the last
// time, and so needs no search and a division of 64 bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analyzer/trace/events/tick_clock.h"

namespace heapprof::trace {

class TickCursor {
 public:
  /// `clock` must outlive this. If it is not finished, times between two of its samples may be a little different
  /// later, when it has dropped samples.
  explicit TickCursor(const TickClock& clock) noexcept : clock_(clock) {}

  std::uint64_t to_ns(std::uint64_t ticks) noexcept {
    if (ticks < from_.ticks || ticks >= after_.ticks) find(ticks);
    std::uint64_t product;
    if (ticks >= after_.ticks || __builtin_mul_overflow(ticks - from_.ticks, after_.ns - from_.ns, &product))
      return clock_.to_ns(Ticks{ticks});
    return from_.ns + product / (after_.ticks - from_.ticks);
  }

 private:
  /// Leaves `after_` as it is where no sample follows.
  [[gnu::noinline]] void find(std::uint64_t ticks) noexcept {
    const std::vector<TickClock::Point>& points = clock_.points();
    const auto after =
        std::upper_bound(points.begin(), points.end(), ticks,
                         [](std::uint64_t value, const TickClock::Point& point) { return value < point.ticks; });
    if (after == points.begin() || after == points.end()) return;
    from_ = *(after - 1);
    after_ = *after;
  }

  const TickClock& clock_;
  TickClock::Point from_;   // the samples around the last time
  TickClock::Point after_;  // equal to from_: there are none yet
};

}  // namespace heapprof::trace
