#include "analyzer/views/tree.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace heapprof::views {
namespace {

/// A node that may become part of the printed tree, and where its children are found.
template <typename Place>
struct Candidate {
  TreeNode node;
  Place place;
};

template <typename Place>
using ChildrenOf = std::function<std::vector<Candidate<Place>>(const Place&)>;

template <typename Place>
class Builder {
 public:
  Builder(const Weight& weight, const TreeLimits& limits, std::uint64_t whole, ChildrenOf<Place> children_of)
      : weight_(weight), max_depth_(limits.depth == 0 ? kMaxTreeDepth : std::min(limits.depth, kMaxTreeDepth)),
        min_weight_(limits.min_share * static_cast<double>(whole)), children_of_(std::move(children_of)) {}

  void add_children(TreeNode& parent, const Place& place, std::size_t depth = 0) const {
    std::vector<Candidate<Place>> candidates = children_of_(place);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const auto& a, const auto& b) { return weight_(a.node.total) > weight_(b.node.total); });
    for (Candidate<Place>& one : candidates) {
      if (one.node.total.empty()) continue;
      if (depth == max_depth_ || static_cast<double>(weight_(one.node.total)) < min_weight_) {
        ++parent.left_out;
        parent.left_out_total += one.node.total;
        continue;
      }
      add_children(parent.children.emplace_back(std::move(one.node)), one.place, depth + 1);
      one.place = {};
    }
  }

 private:
  const Weight& weight_;
  const std::size_t max_depth_;
  const double min_weight_;
  const ChildrenOf<Place> children_of_;
};

/// Stacks that have the same innermost frames, by the node that is their outermost common frame.
struct Callee {
  std::uint32_t node = 0;
  model::Costs costs;
};
using Callees = std::vector<Callee>;

/// Groups `callees` by the key of their nodes. Those at the root have no more callers.
std::vector<Candidate<Callees>> group_by_key(const FrameTree& tree, const Callees& callees) {
  const std::vector<FrameNode>& nodes = tree.nodes();
  std::vector<Candidate<Callees>> groups;
  std::unordered_map<std::uint32_t, std::size_t> known;  // by key
  for (const Callee& callee : callees) {
    if (callee.node == 0) continue;
    const FrameNode& node = nodes[callee.node];
    const auto [at, fresh] = known.try_emplace(node.key, groups.size());
    if (fresh) groups.emplace_back().node.frame = node.frame;
    Candidate<Callees>& group = groups[at->second];
    group.node.total += callee.costs;
    if (node.parent == 0) group.node.self += callee.costs;
    group.place.push_back({node.parent, callee.costs});
  }
  return groups;
}

}  // namespace

TreeNode top_down_tree(const FrameTree& tree, const Weight& weight, const TreeLimits& limits) {
  const std::vector<FrameNode>& nodes = tree.nodes();
  const std::vector<model::Costs> self = tree.at_sites();
  const std::vector<model::Costs> total = tree.below_sites();
  std::vector<std::uint32_t> first_child(nodes.size(), 0);
  std::vector<std::uint32_t> next_sibling(nodes.size(), 0);
  for (auto node = static_cast<std::uint32_t>(nodes.size()); node-- > 1;)
    next_sibling[node] = std::exchange(first_child[nodes[node].parent], node);
  TreeNode root;
  root.self = self[0];
  root.total = total[0];
  Builder<std::uint32_t>(weight, limits, weight(root.total), [&](const std::uint32_t& parent) {
    std::vector<Candidate<std::uint32_t>> children;
    for (std::uint32_t node = first_child[parent]; node != 0; node = next_sibling[node]) {
      TreeNode child;
      child.frame = nodes[node].frame;
      child.self = self[node];
      child.total = total[node];
      children.push_back({std::move(child), node});
    }
    return children;
  }).add_children(root, 0);
  return root;
}

TreeNode inverted_tree(const FrameTree& tree, const Weight& weight, const TreeLimits& limits) {
  const std::vector<model::Costs> self = tree.at_sites();
  TreeNode root;
  root.self = self[0];
  Callees sites;
  for (std::uint32_t node = 0; node < self.size(); ++node) {
    root.total += self[node];
    if (node != 0 && !self[node].empty()) sites.push_back({node, self[node]});
  }
  Builder<Callees>(weight, limits, weight(root.total), [&](const Callees& callees) {
    return group_by_key(tree, callees);
  }).add_children(root, sites);
  return root;
}

}  // namespace heapprof::views
