#include "analyzer/cli/commands/leaks/leak_classes.h"

#include <algorithm>

#include "analyzer/model/profile.h"

namespace heapprof::cli {

LeakClass class_of(const model::LeakTrend& trend) noexcept {
  switch (trend.growth) {
    case model::Growth::kGrowing: return LeakClass::kGrowing;
    case model::Growth::kInUse: return LeakClass::kInUse;
    case model::Growth::kStable: break;
  }
  return trend.grew_with_load ? LeakClass::kWithLoad : LeakClass::kStable;
}

const char* label_of(LeakClass one) noexcept {
  switch (one) {
    case LeakClass::kGrowing: return "growing";
    case LeakClass::kWithLoad: return "with load";
    case LeakClass::kInUse: return "in use";
    case LeakClass::kStable: break;
  }
  return "stable";
}

const char* json_key_of(LeakClass one) noexcept {
  switch (one) {
    case LeakClass::kWithLoad: return "with_load";
    case LeakClass::kInUse: return "in_use";
    case LeakClass::kGrowing:
    case LeakClass::kStable: break;
  }
  return label_of(one);
}

ClassSums sums_of(const std::vector<LeakingSite>& sites, LeakClass of) {
  ClassSums sums;
  for (const LeakingSite& leaking : sites) {
    if (class_of(*leaking.trend) != of) continue;
    const model::Costs& costs = leaking.site->costs;
    sums.held += leaking.site->held;
    sums.allocated_bytes += costs.allocated_bytes - std::min(costs.allocated_bytes, costs.moved_bytes);
    sums.left_bytes += costs.leaked_bytes;
    ++sums.sites;
    sums.grew_until_ns = std::max(sums.grew_until_ns, leaking.trend->grew_until_ns);
  }
  return sums;
}

}  // namespace heapprof::cli
