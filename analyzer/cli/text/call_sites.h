// Stacks grouped by the function that is their call site (analyzer/findings/call_sites.h), whatever the line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/stack_names.h"

namespace heapprof::cli {

/// Stacks with the same call site.
struct CallSite {
  Frame frame;  ///< of the first stack; without a module: stacks without frames
  findings::Origin origin = findings::Origin::kUnresolved;  ///< of the frame
  std::uint32_t node = 0;                                   ///< the first stack
};

struct CallSites {
  std::vector<CallSite> sites;  ///< in the order of their first stacks
  /// By node of the profile: position in sites; kNoIndex: the node is none of the stacks.
  std::vector<std::uint32_t> site_of_node;
};

/// The stacks `nodes` by call site. Takes time for the nodes of the call tree, not for the frames of all stacks.
CallSites group_by_site(const Findings& findings, const std::vector<std::uint32_t>& nodes);

/// For a stack whose call site is unresolved: the nearest caller with a name; or empty.
std::string named_caller(const Findings& findings, std::uint32_t node);

}  // namespace heapprof::cli
