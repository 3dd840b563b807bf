// Parts of ranges: what is inside of a set of pages, and what is outside. A range may be of any type with `begin` and
// `end`; its parts keep its other members, so that pages know of which mapping they are.
//
// All lists are sorted by address and do not overlap, as pins::PageRanges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analyzer/pins/page_ranges.h"

namespace heapprof::rss {

using pins::PageRanges;

/// Calls visit(range, within, begin, end) for each common range [begin, end).
template <typename Range, typename Within, typename Visit>
void for_each_overlap(const std::vector<Range>& ranges, const std::vector<Within>& withins, Visit&& visit) {
  auto within = withins.begin();
  for (const Range& range : ranges) {
    while (within != withins.end() && within->end <= range.begin) ++within;
    for (auto at = within; at != withins.end() && at->begin < range.end; ++at) {
      const std::uint64_t begin = std::max(range.begin, at->begin);
      const std::uint64_t end = std::min(range.end, at->end);
      if (begin < end) visit(range, *at, begin, end);
    }
  }
}

/// The parts of `ranges` that are in `withins`.
template <typename Range, typename Within>
std::vector<Range> parts_inside(const std::vector<Range>& ranges, const std::vector<Within>& withins) {
  std::vector<Range> parts;
  for_each_overlap(ranges, withins, [&](Range range, const Within&, std::uint64_t begin, std::uint64_t end) {
    range.begin = begin;
    range.end = end;
    parts.push_back(range);
  });
  return parts;
}

/// The parts of `ranges` that are not in `withouts`.
template <typename Range, typename Without>
std::vector<Range> parts_outside(const std::vector<Range>& ranges, const std::vector<Without>& withouts) {
  std::vector<Range> parts;
  auto without = withouts.begin();
  for (Range range : ranges) {
    while (without != withouts.end() && without->end <= range.begin) ++without;
    for (auto at = without; at != withouts.end() && at->begin < range.end; ++at) {
      if (at->begin > range.begin) {
        parts.push_back(range);
        parts.back().end = at->begin;
      }
      range.begin = std::min<std::uint64_t>(at->end, range.end);
    }
    if (range.begin < range.end) parts.push_back(range);
  }
  return parts;
}

template <typename Range>
std::uint64_t sum_of(const std::vector<Range>& ranges) {
  std::uint64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.end - range.begin;
  return bytes;
}

template <typename Range, typename Within>
std::uint64_t bytes_inside(const std::vector<Range>& ranges, const std::vector<Within>& withins) {
  std::uint64_t bytes = 0;
  for_each_overlap(ranges, withins, [&](const Range&, const Within&, std::uint64_t begin, std::uint64_t end) {
    bytes += end - begin;
  });
  return bytes;
}

/// Whether [begin, end) has anything in common with `ranges`.
template <typename Range>
bool overlaps(const std::vector<Range>& ranges, std::uint64_t begin, std::uint64_t end) {
  const auto at =
      std::partition_point(ranges.begin(), ranges.end(), [begin](const Range& range) { return range.end <= begin; });
  return at != ranges.end() && at->begin < end;
}

/// The ranges of whole units that `ranges` touch. Precondition: all ends are at most 2^63.
inline PageRanges rounded_out(const PageRanges& ranges, std::uint64_t unit) {
  PageRanges result;
  for (const AddressRange& range : ranges) {
    const AddressRange rounded{allocators::round_down(range.begin, unit), allocators::round_up(range.end, unit)};
    if (!result.empty() && rounded.begin <= result.back().end)
      result.back().end = std::max(result.back().end, rounded.end);
    else result.push_back(rounded);
  }
  return result;
}

}  // namespace heapprof::rss
