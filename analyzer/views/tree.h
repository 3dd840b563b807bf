// The call tree of a profile as far as it is worth printing: from the program's entry down to the call sites, or from
// the call sites up to their callers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/views/frame_tree.h"

namespace heapprof::views {

/// Deeper nodes are left out even if nothing else limits the depth.
inline constexpr std::size_t kMaxTreeDepth = 1000;

/// Selects the figure by which children are sorted and left out.
using Weight = std::function<std::uint64_t(const model::Costs& costs)>;

struct TreeLimits {
  std::size_t depth = 0;  ///< nodes below each other, the root apart; 0: kMaxTreeDepth
  double min_share = 0;   ///< of the root's weight, 0 to 1; nodes with less are left out
};

/// total = self + the totals of all children, of those that are left out, too.
struct TreeNode {
  findings::FrameRef frame;  ///< the root has none
  model::Costs self;         ///< of the stacks that end here; inverted: that have no further caller
  model::Costs total;
  std::vector<TreeNode> children;  ///< largest first
  std::size_t left_out = 0;        ///< number of children that are not in `children`
  model::Costs left_out_total;     ///< their sum
};

/// From callers to call sites. Frames below call sites are not part of it.
TreeNode top_down_tree(const FrameTree& tree, const Weight& weight, const TreeLimits& limits);
/// From call sites to callers.
TreeNode inverted_tree(const FrameTree& tree, const Weight& weight, const TreeLimits& limits);

}  // namespace heapprof::views
