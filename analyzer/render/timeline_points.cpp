#include "analyzer/render/timeline_points.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace heapprof::render {

std::vector<TimelinePoint> timeline_points(const Timeline& timeline, std::uint64_t start, std::uint64_t end,
                                           std::size_t site_count) {
  const Timeline::Peak peak = peak_of(timeline);
  std::vector<TimelinePoint> points;
  const auto& times = timeline.time_ns;
  const auto& highest = timeline.highest_bytes.empty() ? timeline.live_bytes : timeline.highest_bytes;
  const auto kept = envelope(
      times.size(), start, end, [&](std::size_t i) { return times[i]; }, [&](std::size_t i) { return highest[i]; });
  const auto point_at = [&](std::size_t sample) {
    TimelinePoint point{times[sample], timeline.live_bytes[sample], highest[sample], {}};
    for (std::size_t site = 0; site < site_count; ++site) point.sites.push_back(timeline.sites[site].bytes[sample]);
    return point;
  };
  for (const std::size_t sample : kept) points.push_back(point_at(sample));
  if (peak.bytes > 0) {
    TimelinePoint point{peak.time_ns, peak.bytes, peak.bytes, {}};
    for (std::size_t site = 0; site < site_count; ++site) point.sites.push_back(timeline.sites[site].peak_bytes);
    const auto at = std::lower_bound(points.begin(), points.end(), peak.time_ns,
                                     [](const TimelinePoint& p, std::uint64_t time) { return p.time_ns < time; });
    if (at == points.end() || at->time_ns != peak.time_ns) points.insert(at, std::move(point));
  }
  for (const auto& idle : timeline.idle) {
    const auto after = std::lower_bound(points.begin(), points.end(), idle.to_ns,
                                        [](const TimelinePoint& p, std::uint64_t time) { return p.time_ns < time; });
    if (after != points.end() && after->time_ns == idle.to_ns) continue;
    // The last sample may have been thinned out. It may be before the idle time, in which nothing changes.
    const auto last = std::upper_bound(times.begin(), times.end(), idle.to_ns);
    if (last == times.begin()) continue;
    TimelinePoint held = point_at(static_cast<std::size_t>(std::distance(times.begin(), last)) - 1);
    if (held.time_ns < idle.to_ns) held.highest = held.live;
    held.time_ns = idle.to_ns;
    points.insert(after, std::move(held));
  }
  return points;
}

}  // namespace heapprof::render
