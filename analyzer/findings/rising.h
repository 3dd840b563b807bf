// Whether live bytes rose all the time until a moment: what a leak looks like, and a cache without a limit.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "analyzer/model/leak_history.h"

namespace heapprof::findings {

/// `live`: live bytes at equal distances; the last value is that of the moment. By the rule of model::LeakHistory: of
/// LeakTrend::kParts equal parts, the lowest value rose in at least LeakTrend::kMinRises, the last time in the last
/// quarter, each time by at least 1/64 of the last value; at least three quarters of the highest one are left.
inline bool is_rising(std::span<const std::uint64_t> live) noexcept {
  constexpr std::size_t kParts = model::LeakTrend::kParts;
  constexpr std::uint64_t kMinShare = 64;
  if (live.size() < kParts) return false;
  std::array<std::uint64_t, kParts + 1> low{};
  low.fill(std::numeric_limits<std::uint64_t>::max());
  for (std::size_t i = 0; i < live.size(); ++i) {
    std::uint64_t& lowest = low[i * kParts / live.size()];
    lowest = std::min(lowest, live[i]);
  }
  low[kParts] = live.back();
  std::uint64_t high = low[0];
  unsigned rises = 0;
  std::size_t latest = 0;
  for (std::size_t part = 1; part <= kParts; ++part) {
    if (low[part] < high + std::max<std::uint64_t>(low[kParts] / kMinShare, 1)) continue;
    high = low[part];
    ++rises;
    latest = part;
  }
  return rises >= model::LeakTrend::kMinRises && latest > kParts * 3 / 4 && low[kParts] >= high - high / 4;
}

}  // namespace heapprof::findings
