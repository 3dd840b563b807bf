// Visits a call tree depth first, so that sums over subtrees need no memory for each node and function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/profile.h"

namespace heapprof::findings {

/// Calls enter(node), then visits the children of the node in order, then calls leave(node). Node has `parent`, an
/// index below that of the node itself; node 0 is the root. Not recursive: stacks may be deep. Memory: 8 bytes for
/// each node.
template <typename Node, typename Enter, typename Leave>
void walk_tree(const std::vector<Node>& nodes, Enter&& enter, Leave&& leave) {
  if (nodes.empty()) return;
  std::vector<std::uint32_t> first_child(nodes.size(), model::kNoIndex);
  std::vector<std::uint32_t> next_sibling(nodes.size(), model::kNoIndex);
  for (auto node = static_cast<std::uint32_t>(nodes.size()); --node != 0;)
    next_sibling[node] = std::exchange(first_child[nodes[node].parent], node);
  std::uint32_t node = 0;
  for (;;) {
    enter(node);
    if (first_child[node] != model::kNoIndex) {
      node = first_child[node];
      continue;
    }
    for (;;) {
      leave(node);
      if (node == 0) return;
      if (next_sibling[node] != model::kNoIndex) break;
      node = nodes[node].parent;
    }
    node = next_sibling[node];
  }
}

}  // namespace heapprof::findings
