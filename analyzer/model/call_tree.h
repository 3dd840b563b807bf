// Links the call tree of a profile from the trace's definitions.
//
// A trace may define equal frames as several nodes (two threads met a new stack at the same moment) and one object as
// several modules (unloaded and loaded again elsewhere); here equal ones become one. Nodes whose definition is lost
// are one truncation root, "definition_lost", so that damage stays visible.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/trace/events/definitions.h"

namespace heapprof::model {

struct LinkedTree {
  std::vector<Module> modules;
  std::vector<CodeAddress> addresses;
  std::vector<CallNode> nodes;               ///< costs are zero
  std::vector<std::uint32_t> node_of_index;  ///< by dense index of the trace: index in `nodes`
  std::uint64_t lost_nodes = 0;              ///< used in the trace but not defined
  std::uint64_t circular_nodes = 0;          ///< that are their own ancestors: damage
};

/// `definitions` must be complete: call it after the last batch was read.
LinkedTree link_tree(const trace::Definitions& definitions);

}  // namespace heapprof::model
