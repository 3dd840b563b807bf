// The trends of leaking call sites as a reader sees them: stable memory is divided into what grew with the load and
// what did not.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/held.h"
#include "analyzer/model/leak_history.h"

namespace heapprof::cli {

struct LeakingSite {
  const findings::CallSite* site = nullptr;
  const model::LeakTrend* trend = nullptr;  ///< of the sum of its stacks; null: the trace was read only once
};

enum class LeakClass { kGrowing, kWithLoad, kStable, kInUse };

inline constexpr std::array kLeakClasses = {LeakClass::kGrowing, LeakClass::kWithLoad, LeakClass::kStable,
                                            LeakClass::kInUse};

LeakClass class_of(const model::LeakTrend& trend) noexcept;
/// "with load"
const char* label_of(LeakClass one) noexcept;
/// "with_load"
const char* json_key_of(LeakClass one) noexcept;

/// The sums of the call sites of one class.
struct ClassSums {
  findings::Held held;
  std::uint64_t allocated_bytes = 0;  ///< without what reallocs moved
  std::uint64_t left_bytes = 0;
  std::uint64_t sites = 0;
  std::uint64_t grew_until_ns = 0;
};

/// Precondition: every site has a trend.
ClassSums sums_of(const std::vector<LeakingSite>& sites, LeakClass of);

}  // namespace heapprof::cli
