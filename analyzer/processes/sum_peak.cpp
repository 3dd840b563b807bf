#include "analyzer/processes/sum_peak.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace heapprof::processes {
namespace {

/// A time in which no process begins another piece.
struct Interval {
  std::uint64_t from_ns;
  std::uint64_t to_ns;
  std::uint64_t at_least;
  std::uint64_t at_most;
  double changes;
};

std::vector<Interval> intervals_of(std::span<const LiveBounds> processes) {
  /// From `ns` on, the sums are higher by these; what is lower is added modulo 2^64.
  struct Change {
    std::uint64_t ns;
    std::uint64_t min_bytes;
    std::uint64_t max_bytes;
    double changes_per_ns;
  };
  std::vector<Change> changes;
  for (const LiveBounds& process : processes) {
    LivePiece before;
    double rate_before = 0;
    for (std::size_t i = 0; i < process.pieces.size(); ++i) {
      const LivePiece& piece = process.pieces[i];
      const std::uint64_t to_ns = i + 1 < process.pieces.size() ? process.pieces[i + 1].from_ns : process.end_ns + 1;
      const double rate = static_cast<double>(piece.changes) /
                          static_cast<double>(std::max(to_ns, piece.from_ns + 1) - piece.from_ns);
      changes.push_back({piece.from_ns, piece.min_bytes - before.min_bytes, piece.max_bytes - before.max_bytes,
                         rate - rate_before});
      before = piece;
      rate_before = rate;
    }
    changes.push_back({process.end_ns + 1, 0 - before.min_bytes, 0 - before.max_bytes, -rate_before});
  }
  std::ranges::sort(changes, {}, &Change::ns);
  std::vector<Interval> intervals;
  std::uint64_t at_least = 0, at_most = 0;
  double rate = 0;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    at_least += changes[i].min_bytes;
    at_most += changes[i].max_bytes;
    rate += changes[i].changes_per_ns;
    const std::uint64_t from_ns = changes[i].ns;
    const std::uint64_t next_ns = changes[i + 1].ns;
    if (from_ns == next_ns) continue;
    intervals.push_back(
        {from_ns, next_ns - 1, at_least, at_most, std::max(rate, 0.0) * static_cast<double>(next_ns - from_ns)});
  }
  return intervals;
}

}  // namespace

Windows windows_of_peak(std::span<const LiveBounds> processes, std::uint64_t max_changes) {
  const std::vector<Interval> intervals = intervals_of(processes);
  std::uint64_t certain = 0;
  for (const Interval& one : intervals) certain = std::max(certain, one.at_least);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < intervals.size(); ++i)
    if (intervals[i].at_most >= certain && intervals[i].at_most != 0) order.push_back(i);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return intervals[i].at_most; });

  Windows windows;
  double changes = 0;
  std::size_t count = 0;
  for (; count < order.size(); ++count) {
    changes += intervals[order[count]].changes;
    if (count != 0 && changes > static_cast<double>(max_changes)) break;
  }
  if (count < order.size()) windows.at_most_elsewhere = intervals[order[count]].at_most;
  order.resize(count);
  std::ranges::sort(order);
  for (const std::size_t i : order) {
    const Interval& one = intervals[i];
    if (!windows.chosen.empty() && windows.chosen.back().to_ns + 1 == one.from_ns)
      windows.chosen.back().to_ns = one.to_ns;
    else windows.chosen.push_back({one.from_ns, one.to_ns});
  }
  return windows;
}

SumPeak peak_in_windows(std::span<const Window> windows, std::span<const StepsInWindows> processes) {
  SumPeak peak;
  bool any = false;
  for (std::size_t window = 0; window < windows.size(); ++window) {
    std::uint64_t sum = 0;
    using Next = std::pair<std::uint64_t, std::size_t>;  // time and process
    std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
    std::vector<std::size_t> position(processes.size(), 0);
    std::vector<std::uint64_t> live(processes.size());
    for (std::size_t i = 0; i < processes.size(); ++i) {
      sum += live[i] = processes[i].at_begin[window];
      const std::vector<Step>& steps = processes[i].steps[window];
      if (!steps.empty()) next.emplace(steps.front().ns, i);
    }
    if (!any || sum > peak.bytes) {
      peak.ns = windows[window].from_ns;
      peak.bytes = sum;
      peak.window = window;
      peak.process = SumPeak::kBegin;
      any = true;
    }
    while (!next.empty()) {
      const auto [ns, process] = next.top();
      next.pop();
      const std::vector<Step>& steps = processes[process].steps[window];
      std::size_t& at = position[process];
      for (; at < steps.size() && steps[at].ns == ns; ++at) {
        sum = sum - live[process] + steps[at].live_bytes;
        live[process] = steps[at].live_bytes;
        if (sum <= peak.bytes) continue;
        peak.ns = ns;
        peak.bytes = sum;
        peak.window = window;
        peak.process = process;
        peak.step = at;
      }
      if (at < steps.size()) next.emplace(steps[at].ns, process);
    }
  }

  // What each process had then: the changes up to the peak, once more.
  peak.live_bytes.reserve(processes.size());
  for (std::size_t i = 0; i < processes.size(); ++i) {
    std::uint64_t live = processes[i].at_begin[peak.window];
    const std::vector<Step>& steps = processes[i].steps[peak.window];
    for (std::size_t at = 0; peak.process != SumPeak::kBegin && at < steps.size(); ++at) {
      const bool before =
          i == peak.process ? at <= peak.step : std::pair(steps[at].ns, i) < std::pair(peak.ns, peak.process);
      if (!before) break;
      live = steps[at].live_bytes;
    }
    peak.live_bytes.push_back(live);
  }
  return peak;
}

}  // namespace heapprof::processes
