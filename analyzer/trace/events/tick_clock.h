// Converts ticks of the trace to nanoseconds since its start.
//
// Every sample pairs ticks with CLOCK_MONOTONIC. Between two samples the clock is interpolated; beyond the last
// sample it runs at the mean rate of the recording; when the samples are of a short time, at the rate in the header,
// if that has one. Samples are thinned out while they are added, so memory does not grow with the length of the
// recording.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/trace_format.h"

namespace heapprof::trace {

/// Ticks since the start of the trace.
enum class Ticks : std::uint64_t {};

class TickClock {
 public:
  /// points() has at most kMaxPoints + 1 entries.
  static constexpr std::size_t kMaxPoints = 4096;

  struct Point {
    std::uint64_t ticks = 0;
    std::uint64_t ns = 0;
  };

  TickClock() = default;
  explicit TickClock(const FileHeader& header)
      : start_ns_(header.start_monotonic_ns), nominal_rate_(header.ticks_per_second) {
    if (header.clock == Clock::kMonotonic) nominal_rate_ = kDefaultRate;
  }
  /// A finished clock with the points() of another one. Precondition: the first point is {0, 0}, ticks increase and
  /// nanoseconds do not decrease.
  TickClock(const FileHeader& header, std::vector<Point> points) : TickClock(header) { points_ = std::move(points); }

  /// `monotonic_ns` is CLOCK_MONOTONIC at `ticks`. Pairs that go backwards are ignored, and those that only damage
  /// explains: no recording lasts 292 years.
  void add_sample(std::uint64_t ticks, std::uint64_t monotonic_ns) {
    if (monotonic_ns < start_ns_ || monotonic_ns - start_ns_ > kMaxNs) return;
    const Point point{ticks, monotonic_ns - start_ns_};
    if (point.ticks <= points_.back().ticks || point.ns < points_.back().ns) return;
    if (skip_ + 1 < stride_) {
      ++skip_;
      latest_ = point;
      return;
    }
    skip_ = 0;
    latest_ = {};
    points_.push_back(point);
    if (points_.size() < kMaxPoints) return;
    std::size_t kept = 1;
    for (std::size_t i = 2; i < points_.size(); i += 2) points_[kept++] = points_[i];
    latest_ = points_.back();
    points_.resize(kept);
    if (latest_.ticks <= points_.back().ticks) latest_ = {};
    stride_ *= 2;
  }

  /// Call once, after the last sample.
  void finish() {
    if (latest_.ticks > points_.back().ticks && latest_.ns >= points_.back().ns) points_.push_back(latest_);
    latest_ = {};
  }

  const std::vector<Point>& points() const noexcept { return points_; }

  /// Ticks in a microsecond: the mean of the recording, rounded down, at least 1.
  std::uint64_t ticks_per_us() const noexcept {
    const Point& last = points_.back();
    return std::max<std::uint64_t>(
        gives_rate(last, 1'000'000) ? scale(last.ticks, 1'000, last.ns) : header_rate() / 1'000'000, 1);
  }

  /// Nanoseconds since the start of the trace.
  std::uint64_t to_ns(Ticks since_start) const noexcept {
    const auto ticks = static_cast<std::uint64_t>(since_start);
    const auto after = std::upper_bound(points_.begin(), points_.end(), ticks,
                                        [](std::uint64_t value, const Point& point) { return value < point.ticks; });
    const Point* from = &*(after - 1);
    if (after != points_.end())
      return from->ns + scale(ticks - from->ticks, after->ns - from->ns, after->ticks - from->ticks);
    // Beyond the last sample.
    if (gives_rate(*from, 100'000'000)) return from->ns + scale(ticks - from->ticks, from->ns, from->ticks);
    return from->ns + scale(ticks - from->ticks, 1'000'000'000, header_rate());
  }

  /// The first tick that is not before `ns`.
  std::uint64_t first_tick_at(std::uint64_t ns) const noexcept {
    std::uint64_t low = 0;
    std::uint64_t high = std::uint64_t{1} << 63;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (to_ns(Ticks{middle}) < ns) low = middle + 1;
      else high = middle;
    }
    return low;
  }

 private:
  static constexpr std::uint64_t kDefaultRate = 1'000'000'000;
  /// Of a sample, and of the time since one: to_ns() adds the two.
  static constexpr std::uint64_t kMaxNs = UINT64_MAX / 2;

  /// Whether the mean rate up to `last` is better than that of the header. It is exact after `exact_after_ns`. On
  /// x86-64 the header has none; then a mean of less time is used, too.
  bool gives_rate(const Point& last, std::uint64_t exact_after_ns) const noexcept {
    return last.ns >= (nominal_rate_ != 0 ? exact_after_ns : 1);
  }
  std::uint64_t header_rate() const noexcept { return nominal_rate_ != 0 ? nominal_rate_ : kDefaultRate; }

  static std::uint64_t scale(std::uint64_t ticks, std::uint64_t ns, std::uint64_t per_ticks) noexcept {
    __extension__ using Wide = unsigned __int128;
    const Wide result = static_cast<Wide>(ticks) * ns / per_ticks;
    return result > kMaxNs ? kMaxNs : static_cast<std::uint64_t>(result);
  }

  std::uint64_t start_ns_ = 0;
  std::uint64_t nominal_rate_ = kDefaultRate;  // 0: unknown
  std::vector<Point> points_{Point{}};
  std::size_t stride_ = 1;  // every stride-th sample becomes a point
  std::size_t skip_ = 0;    // samples since the last point
  Point latest_;            // the last sample that did not become a point
};

}  // namespace heapprof::trace
