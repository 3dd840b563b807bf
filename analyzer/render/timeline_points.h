// The points of a timeline's picture: samples thinned to its columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/render/timeline.h"

namespace heapprof::render {

inline constexpr std::size_t kTimelineColumns = 400;

/// One point of the picture.
struct TimelinePoint {
  std::uint64_t time_ns;
  std::uint64_t live;
  std::uint64_t highest;             ///< since the point before
  std::vector<std::uint64_t> sites;  ///< bytes by call site
};

/// Thins out `count` values for kTimelineColumns columns between `start` and `end`. Returns the indices of the lowest
/// and the highest value of each column, and of the first and the last of all values, ascending. `time(i)` and
/// `value(i)` belong to index i.
template <typename Time, typename Value>
std::vector<std::size_t> envelope(std::size_t count, std::uint64_t start, std::uint64_t end, Time time, Value value) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < count;) {
    const auto column = [&](std::size_t k) {
      return static_cast<std::size_t>(static_cast<double>(time(k) - start) / static_cast<double>(end - start) *
                                      kTimelineColumns);
    };
    const std::size_t here = column(i);
    std::size_t low = i;
    std::size_t high = i;
    std::size_t k = i;
    for (; k < count && column(k) == here; ++k) {
      if (value(k) < value(low)) low = k;
      if (value(k) > value(high)) high = k;
    }
    for (const std::size_t pick : {i == 0 ? i : std::min(low, high), std::min(low, high), std::max(low, high),
                                   k == count ? k - 1 : std::max(low, high)})
      if (kept.empty() || pick > kept.back()) kept.push_back(pick);
    i = k;
  }
  return kept;
}

/// The points of `timeline` between `start` and `end`, with its first `site_count` call sites: thinned samples, the
/// peak, and one at the end of each idle time, so that live bytes stay level until then.
std::vector<TimelinePoint> timeline_points(const Timeline& timeline, std::uint64_t start, std::uint64_t end,
                                           std::size_t site_count);

}  // namespace heapprof::render
