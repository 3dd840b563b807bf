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

/// Stacks with the same call site.
struct CallSite {
  Frame frame;             ///< of the first stack; without a module: stacks without frames
  std::uint32_t node = 0;  ///< the first stack
};

struct CallSites {
  std::vector<CallSite> sites;  ///< in the order of their first stacks
  /// By node of the profile: position in sites; kNoIndex: the node is none of the stacks.
  std::vector<std::uint32_t> site_of_node;
};

/// The stacks `nodes`, which `names` has resolved, by call site. Takes time for nodes and code addresses of the call
/// tree, not for the frames of all stacks.
CallSites group_by_site(const model::Profile& profile, const StackNames& names,
                        const std::vector<std::uint32_t>& nodes);

/// For a stack whose call site is unresolved: the nearest caller with a name; or empty.
std::string named_caller(const StackNames& names, std::uint32_t node);

/// Number of innermost frames of `stack` (not empty) that belong to the allocation machinery; less than its size.
std::size_t frames_of_machinery(const std::vector<Frame>& stack);

/// The call site of `stack` (not empty).
const Frame& call_site_of(const std::vector<Frame>& stack);

/// Whether `function` belongs to the allocation machinery.
bool is_allocation_machinery(const std::string& function);

}  // namespace heapprof::cli
