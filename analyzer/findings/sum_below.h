// Sums over everything below the frames of functions, recursion counted once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/tree_walk.h"

namespace heapprof::findings {

/// Groups of functions have the numbers below `groups`: group_of(function), or model::kNoIndex. For each frame of a
/// group that is not below another one of the same group, calls found(group, sum, depth) when everything below it was
/// visited: `sum` is that of of_node(node) for the frame's own node and all below; `depth` counts the frames from the
/// root, inlined ones too, from 1. The result of of_node has += and -.
template <typename GroupOf, typename OfNode, typename Found>
void sum_below(const CodeFrames& frames, std::size_t groups, GroupOf&& group_of, OfNode&& of_node, Found&& found) {
  using Sum = decltype(of_node(std::uint32_t{}));
  struct Open {
    Sum before{};
    std::uint32_t depth = 0;
    std::uint32_t count = 0;
  };
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  std::vector<Open> open(groups);
  Sum sum{};
  std::uint32_t depth = 0;
  const auto for_frames = [&](std::uint32_t node, auto&& visit) {
    if (const std::uint32_t address = nodes[node].address; address != model::kNoIndex) {
      const std::span<const std::uint32_t> functions = frames.functions_at(address);
      for (std::size_t i = functions.size(); i-- > 0;) visit(group_of(functions[i]));
    }
  };
  walk_tree(
      nodes,
      [&](std::uint32_t node) {
        for_frames(node, [&](std::uint32_t group) {
          ++depth;
          if (group != model::kNoIndex && open[group].count++ == 0) {
            open[group].before = sum;
            open[group].depth = depth;
          }
        });
        sum += of_node(node);
      },
      [&](std::uint32_t node) {
        for_frames(node, [&](std::uint32_t group) {
          --depth;
          if (group != model::kNoIndex && --open[group].count == 0)
            found(group, sum - open[group].before, open[group].depth);
        });
      });
}

}  // namespace heapprof::findings
