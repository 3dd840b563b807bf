#include "analyzer/render/flame_layout.h"

#include <algorithm>
#include <functional>

namespace heapprof::render {

FlameLayout lay_out(const FlameTree& tree, std::uint32_t max_frames, bool comparison) {
  const auto nodes = tree.nodes();
  const auto functions = tree.functions();

  std::vector<std::uint64_t> totals(nodes.size());
  std::vector<std::uint32_t> below(nodes.size());  // frames with a value under each, itself included
  std::vector<std::uint64_t> before(nodes.size()), after(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    before[i] = nodes[i].before;
    after[i] = nodes[i].self;
    totals[i] = comparison ? std::max(before[i], after[i]) : after[i];
  }
  for (std::size_t i = nodes.size(); i-- > 1;) {
    totals[nodes[i].parent] += totals[i];
    before[nodes[i].parent] += before[i];
    after[nodes[i].parent] += after[i];
  }
  for (std::size_t i = nodes.size(); i-- > 1;) {
    below[i] += totals[i] != 0;
    below[nodes[i].parent] += below[i];
  }

  // A node's value is at least that of its children, so the nodes above a threshold are a tree.
  std::uint64_t min_value = 1;
  if (below[0] > max_frames) {
    std::vector<std::uint64_t> sorted(totals.begin() + 1, totals.end());
    std::nth_element(sorted.begin(), sorted.begin() + max_frames, sorted.end(), std::greater<>());
    min_value = sorted[max_frames] + 1;
  }

  std::vector<std::vector<FlameTree::Node>> children(nodes.size());
  for (std::size_t i = 1; i < nodes.size(); ++i)
    if (totals[i] != 0) children[nodes[i].parent].push_back(static_cast<FlameTree::Node>(i));
  const auto comes_first = [&](FlameTree::Node a, FlameTree::Node b) {
    if (totals[a] != totals[b]) return totals[a] > totals[b];
    const auto& x = functions[nodes[a].function];
    const auto& y = functions[nodes[b].function];
    if (x.name != y.name) return x.name < y.name;
    if (x.module != y.module) return x.module < y.module;
    if (x.file != y.file) return x.file < y.file;
    return x.inlined < y.inlined;
  };

  FlameLayout layout;
  struct Visit {
    FlameTree::Node node;
    std::uint32_t depth;
    std::uint64_t left;
  };
  std::vector<Visit> stack{{FlameTree::kRoot, 0, 0}};
  while (!stack.empty()) {
    const Visit visit = stack.back();
    stack.pop_back();
    auto& own_children = children[visit.node];
    if (totals[visit.node] < min_value && visit.node != FlameTree::kRoot) {
      // Small siblings come last, so they are the next visits. All of them become one box.
      std::uint64_t frames = below[visit.node];
      std::uint64_t value = totals[visit.node];
      std::uint64_t merged_before = before[visit.node];
      std::uint64_t merged_after = after[visit.node];
      while (!stack.empty() && stack.back().depth == visit.depth) {
        frames += below[stack.back().node];
        value += totals[stack.back().node];
        merged_before += before[stack.back().node];
        merged_after += after[stack.back().node];
        stack.pop_back();
      }
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(frames, UINT32_MAX));
      layout.boxes.push_back(
          {visit.depth, FlameLayout::kMerged, count, false, value, visit.left, merged_before, merged_after});
      layout.merged_frames += frames;
      layout.merged_value += value;
      layout.rows = std::max(layout.rows, visit.depth + 1);
      continue;
    }
    const auto& node = nodes[visit.node];
    layout.boxes.push_back({visit.depth, node.function, node.line, node.several_lines, totals[visit.node], visit.left,
                            before[visit.node], after[visit.node]});
    layout.rows = std::max(layout.rows, visit.depth + 1);
    std::sort(own_children.begin(), own_children.end(), comes_first);
    // Pushed in reverse, so that the largest is visited next.
    std::uint64_t right = visit.left;
    for (const FlameTree::Node child : own_children) right += totals[child];
    for (std::size_t i = own_children.size(); i-- > 0;) {
      right -= totals[own_children[i]];
      stack.push_back({own_children[i], visit.depth + 1, right});
    }
  }
  return layout;
}

}  // namespace heapprof::render
