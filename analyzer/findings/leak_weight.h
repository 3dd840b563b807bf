// The rank of what is left at the end: bytes, survival and trend.
#pragma once

#include <algorithm>
#include <cstdint>

#include "analyzer/model/leak_history.h"

namespace heapprof::findings {

/// The share of what was allocated that was never freed, 0 to 1. A reallocation counts as one block that goes on.
constexpr double survival(std::uint64_t left_bytes, std::uint64_t freed_bytes) noexcept {
  const double all = static_cast<double>(left_bytes) + static_cast<double>(freed_bytes);
  return all == 0 ? 0 : static_cast<double>(left_bytes) / all;
}

/// bytes * max(survival^2, 1/8), times kGrowthFactor for growing memory. A cache that turns over frees more than it
/// keeps; a slow leak grows.
inline constexpr double kMinSurvivalFactor = 1.0 / 8;
inline constexpr double kGrowthFactor = 8;

constexpr double leak_weight(std::uint64_t left_bytes, double survival, model::Growth growth) noexcept {
  return static_cast<double>(left_bytes) * std::max(survival * survival, kMinSurvivalFactor) *
         (growth == model::Growth::kGrowing ? kGrowthFactor : 1);
}

}  // namespace heapprof::findings
