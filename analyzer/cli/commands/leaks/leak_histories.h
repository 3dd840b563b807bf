// The trends of what leaks, by stack and by call site.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/leak_history.h"

namespace heapprof::cli {

struct LeakHistories {
  model::LeakHistory stacks;
  std::vector<std::uint32_t> stack_of_node;  ///< by node of the profile: its position in `stacks`
  model::LeakHistory sites;                  ///< positions are those of CallSites::sites()

  /// Precondition: the node leaks.
  const model::LeakTrend& of_stack(std::uint32_t node) const { return stacks.of(stack_of_node[node]); }
  const model::LeakTrend& of_site(std::uint32_t site) const { return sites.of(site); }
};

}  // namespace heapprof::cli
