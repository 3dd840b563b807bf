// The call tree of a profile, linked from the trace's definitions.
//
// A trace may name one frame by several nodes (two threads met a new stack at the same moment) and one
// object by several modules (unloaded and loaded again elsewhere); here equal ones become one. What damage
// took is kept visible: a node whose definition is lost hangs below a root of its own.
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
  std::vector<std::uint32_t> node_of_index;  ///< by dense index of the trace: position in `nodes`
  std::uint64_t lost_nodes = 0;              ///< met, but never defined
  std::uint64_t circular_nodes = 0;          ///< their own ancestors: damage
};

LinkedTree link_tree(const trace::Definitions& definitions);

}  // namespace heapprof::model
