// Call sites: stacks grouped by the function in which the program asked for memory.
//
// A stack's site is its innermost frame that is not part of the allocation machinery (operator new, malloc
// wrappers of libstdc++, container and allocator templates of the standard library, Rust's own libraries): the place
// a reader would change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

struct CallSite {
  Frame frame;                      ///< of the largest stack in it
  std::uint64_t peak_bytes = 0;     ///< live at the profile's peak
  std::string called_from;  ///< of a frame without a name: the nearest caller with one, in that stack; or empty
};

struct CallSites {
  std::vector<CallSite> sites;                ///< largest at the peak first
  std::vector<std::uint32_t> site_of_node;    ///< by node of the profile: position in sites, or model::kNoIndex
};

/// The `most` largest sites of the stacks that `names` has resolved and `nodes` lists.
CallSites find_call_sites(const model::Profile& profile, const StackNames& names,
                          const std::vector<std::uint32_t>& nodes, std::size_t most);

/// How many frames of `stack` (not empty), from the innermost on, only pass memory on. One is always left.
std::size_t frames_of_machinery(const std::vector<Frame>& stack);

/// The place in `stack` (not empty) that a reader would change.
const Frame& call_site_of(const std::vector<Frame>& stack);

/// Stacks with the same call site.
struct SiteGroup {
  Frame frame;                        ///< of the first stack in it
  std::vector<std::uint32_t> nodes;   ///< in the order given
};

/// The stacks `nodes`, resolved by `names`, by call site; groups in order of their first stack. Stacks of which
/// nothing is known form one group whose frame has no module.
std::vector<SiteGroup> group_by_site(const StackNames& names, const std::vector<std::uint32_t>& nodes);

/// Whether `function` only passes memory on: its caller is the one to show.
bool is_allocation_machinery(const std::string& function);

}  // namespace heapprof::cli
