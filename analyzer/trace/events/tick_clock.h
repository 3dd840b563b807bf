// Ticks of the trace to nanoseconds since its start.
//
// Every sample pairs ticks with CLOCK_MONOTONIC; between samples the two are taken to run evenly, before the
// first and after the last at the rate of the whole recording. With no samples the header's estimate
// serves. Samples are thinned out as they come, so a long recording needs no more memory than a short one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/trace_format.h"

namespace heapprof::trace {

class TickClock {
 public:
  /// points() are at most one more.
  static constexpr std::size_t kMaxPoints = 4096;

  struct Point {
    std::uint64_t ticks = 0;
    std::uint64_t ns = 0;
  };

  TickClock() = default;
  explicit TickClock(const FileHeader& header)
      : start_ns_(header.start_monotonic_ns), nominal_rate_(header.ticks_per_second) {
    if (header.clock == Clock::kMonotonic) nominal_rate_ = 1'000'000'000;
    if (nominal_rate_ == 0) nominal_rate_ = 1'000'000'000;
  }
  /// A finished clock, from what points() of another gave: the first is {0, 0}, later ones have more ticks and not
  /// fewer nanoseconds.
  TickClock(const FileHeader& header, std::vector<Point> points) : TickClock(header) { points_ = std::move(points); }

  /// `monotonic_ns` is CLOCK_MONOTONIC at `ticks`. Pairs that do not go forward are left out.
  void add_sample(std::uint64_t ticks, std::uint64_t monotonic_ns) {
    if (monotonic_ns < start_ns_) return;
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

  /// How many ticks make a microsecond, over the whole recording, rounded down; at least 1.
  std::uint64_t ticks_per_us() const noexcept {
    const Point& last = points_.back();
    const std::uint64_t ticks = last.ns >= 1'000'000 ? scale(last.ticks, 1'000, last.ns) : nominal_rate_ / 1'000'000;
    return std::max<std::uint64_t>(ticks, 1);
  }

  std::uint64_t to_ns(std::uint64_t ticks) const noexcept {
    const auto after = std::upper_bound(points_.begin(), points_.end(), ticks,
                                        [](std::uint64_t value, const Point& point) { return value < point.ticks; });
    const Point* from = &*(after - 1);
    if (after != points_.end())
      return from->ns + scale(ticks - from->ticks, after->ns - from->ns, after->ticks - from->ticks);
    // Beyond the last sample. A short recording's samples are too close together to give a rate.
    if (from->ns >= 100'000'000) return from->ns + scale(ticks - from->ticks, from->ns, from->ticks);
    return from->ns + scale(ticks - from->ticks, 1'000'000'000, nominal_rate_);
  }

 private:
  static std::uint64_t scale(std::uint64_t ticks, std::uint64_t ns, std::uint64_t per_ticks) noexcept {
    __extension__ using Wide = unsigned __int128;
    const Wide result = static_cast<Wide>(ticks) * ns / per_ticks;
    return result > UINT64_MAX / 2 ? UINT64_MAX / 2 : static_cast<std::uint64_t>(result);
  }

  std::uint64_t start_ns_ = 0;
  std::uint64_t nominal_rate_ = 1'000'000'000;
  std::vector<Point> points_{Point{}};
  std::size_t stride_ = 1;
  std::size_t skip_ = 0;
  Point latest_;
};

}  // namespace heapprof::trace
