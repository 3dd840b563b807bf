// Call sites: stacks grouped by the function that allocated.
//
// The call site of a stack is its innermost frame outside the allocation machinery: operator new, malloc wrappers,
// container and allocator templates of the C++ standard library, Rust's standard libraries. It is the code that a
// developer would change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

struct CallSite {
  Frame frame;                   ///< of the largest stack in it
  std::uint64_t peak_bytes = 0;  ///< live at the profile's peak
  std::string called_from;       ///< for an unresolved frame the nearest caller with a name, in that stack; or empty
};

struct CallSites {
  std::vector<CallSite> sites;              ///< largest at the peak first
  std::vector<std::uint32_t> site_of_node;  ///< by node of the profile: position in sites, or model::kNoIndex
};

/// The largest call sites, at most `max_sites`, of the stacks `nodes`, which `names` has resolved.
CallSites find_call_sites(const model::Profile& profile, const StackNames& names,
                          const std::vector<std::uint32_t>& nodes, std::size_t max_sites);

/// Number of innermost frames of `stack` (not empty) that belong to the allocation machinery; less than its size.
std::size_t frames_of_machinery(const std::vector<Frame>& stack);

/// The call site of `stack` (not empty).
const Frame& call_site_of(const std::vector<Frame>& stack);

/// Stacks with the same call site.
struct SiteGroup {
  Frame frame;                       ///< of the first stack in it
  std::vector<std::uint32_t> nodes;  ///< in the order given
};

/// The stacks `nodes`, resolved by `names`, grouped by call site, in the order of each group's first stack. Stacks
/// without frames form one group whose frame has no module.
std::vector<SiteGroup> group_by_site(const StackNames& names, const std::vector<std::uint32_t>& nodes);

/// Whether `function` belongs to the allocation machinery.
bool is_allocation_machinery(const std::string& function);

}  // namespace heapprof::cli
