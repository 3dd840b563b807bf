// The callers and callees of a function, each with the costs of the stacks in which one calls the other.
//
// A stack counts once for each caller and each callee, however often they occur in it. Without recursion the callers'
// totals add up to the function's, and so do its own costs, those as a helper, and the callees' totals.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/views/frame_tree.h"

namespace heapprof::views {

struct Neighbour {
  findings::FrameRef frame;  ///< exists() is false: the function has no caller
  model::Costs total;
};

struct Neighbours {
  model::Costs self;               ///< of the stacks whose call site it is
  model::Costs as_helper;          ///< of the stacks in which it occurs only below the call site
  model::Costs total;              ///< of the stacks in which it occurs
  bool recursive = false;          ///< a stack has it more than once
  std::vector<Neighbour> callers;  ///< in no particular order
  std::vector<Neighbour> callees;  ///< of frames down to the call sites, in no particular order
};

/// `keys` are those of the functions, or lines, that count as one; they are keys of `tree`.
Neighbours neighbours_of(const FrameTree& tree, const std::vector<std::uint32_t>& keys);

}  // namespace heapprof::views
