// The rank of what is left at the end.
//
//   weight = bytes left * max(survival^2, 1/8)         in general
//            bytes left * max(survival^2, 1/8) * 4     that grew with the load, but in a small part of the time
//            bytes left * max(survival, 1/4) * 20      growing, or grew until the load ended
//
// What grew with the load in a small part of the time may be data that the program loads when it starts.
//
// Survival is the share of what was allocated that was never freed: a cache that turns over frees more than it keeps.
// It counts less for growing memory, since a slow leak may be a small part of what its call site allocates.
#pragma once

#include <algorithm>
#include <cstdint>

#include "analyzer/findings/call_sites.h"
#include "analyzer/model/leak_history.h"
#include "analyzer/model/profile.h"

namespace heapprof::findings {

inline constexpr double kMinSurvivalFactor = 1.0 / 8;
inline constexpr double kMinGrowingSurvivalFactor = 1.0 / 4;
inline constexpr double kGrowthFactor = 20;
inline constexpr double kLoadGrowthFactor = 4;

/// The share of bytes that were never freed, 0 to 1. A block that a realloc moves goes on: what it was before counts
/// neither as left nor as freed.
constexpr double survival(const model::Costs& costs) noexcept {
  const std::uint64_t all =
      std::max(costs.allocated_bytes - std::min(costs.moved_bytes, costs.allocated_bytes), costs.leaked_bytes);
  return all == 0 ? 0 : static_cast<double>(costs.leaked_bytes) / static_cast<double>(all);
}

/// `trend` may be null: unknown.
constexpr double leak_weight(std::uint64_t left_bytes, double survival, const model::LeakTrend* trend) noexcept {
  const auto bytes = static_cast<double>(left_bytes);
  if (trend != nullptr && (trend->growth == model::Growth::kGrowing ||
                           (trend->grew_with_load && trend->rises >= model::Rises::kMinCount)))
    return bytes * std::max(survival, kMinGrowingSurvivalFactor) * kGrowthFactor;
  const double weight = bytes * std::max(survival * survival, kMinSurvivalFactor);
  return trend != nullptr && trend->grew_with_load ? weight * kLoadGrowthFactor : weight;
}

/// Of a call site that holds what is left.
inline double leak_weight(const CallSite& site, const model::LeakTrend* trend) noexcept {
  return leak_weight(site.held.bytes, survival(site.costs), trend);
}

}  // namespace heapprof::findings
