#include "analyzer/views/neighbours.h"

#include "analyzer/findings/tree_walk.h"

namespace heapprof::views {
namespace {

/// Sums of stacks by key, each stack once.
class SumsByKey {
 public:
  explicit SumsByKey(std::size_t keys) : rows_(keys), open_(keys, 0) {}

  void enter(std::uint32_t key, findings::FrameRef frame, const model::Costs& below) {
    if (open_[key]++ != 0) return;
    rows_[key].frame = frame;
    rows_[key].total += below;
  }
  void leave(std::uint32_t key) { --open_[key]; }

  std::vector<Neighbour> take() {
    std::erase_if(rows_, [](const Neighbour& row) { return row.total.empty(); });
    return std::move(rows_);
  }

 private:
  std::vector<Neighbour> rows_;
  std::vector<std::uint32_t> open_;
};

/// Precondition: `part` is a part of `whole`.
model::Costs difference(model::Costs whole, const model::Costs& part) {
  whole.allocations -= part.allocations;
  whole.allocated_bytes -= part.allocated_bytes;
  whole.temporary -= part.temporary;
  whole.temporary_bytes -= part.temporary_bytes;
  whole.leaked_bytes -= part.leaked_bytes;
  whole.leaked_blocks -= part.leaked_blocks;
  whole.peak_bytes -= part.peak_bytes;
  whole.peak_blocks -= part.peak_blocks;
  whole.live_bytes -= part.live_bytes;
  whole.live_blocks -= part.live_blocks;
  whole.moved_bytes -= part.moved_bytes;
  whole.moved_blocks -= part.moved_blocks;
  return whole;
}

}  // namespace

Neighbours neighbours_of(const FrameTree& tree, const std::vector<std::uint32_t>& keys) {
  const std::vector<FrameNode>& nodes = tree.nodes();
  const std::vector<model::Costs> at_sites = tree.at_sites();
  const std::vector<model::Costs> below_sites = tree.below_sites();
  const std::vector<model::Costs> below_leaves = tree.below_leaves();
  std::vector<std::uint8_t> wanted(tree.key_count(), 0);
  for (const std::uint32_t key : keys) wanted[key] = 1;
  const auto is_wanted = [&](std::uint32_t node) { return node != 0 && wanted[nodes[node].key] != 0; };
  // The last key means that there is no caller.
  const std::uint32_t no_caller = tree.key_count();
  SumsByKey callers(std::size_t{tree.key_count()} + 1);
  SumsByKey callees(tree.key_count());
  const auto caller_key = [&](std::uint32_t node) {
    const std::uint32_t parent = nodes[node].parent;
    return parent == 0 ? no_caller : nodes[parent].key;
  };
  Neighbours result;
  model::Costs down_to_sites;
  std::uint32_t open = 0;
  findings::walk_tree(
      nodes,
      [&](std::uint32_t node) {
        if (node == 0) return;
        if (is_wanted(nodes[node].parent)) callees.enter(nodes[node].key, nodes[node].frame, below_sites[node]);
        if (!is_wanted(node)) return;
        callers.enter(caller_key(node), nodes[nodes[node].parent].frame, below_leaves[node]);
        result.self += at_sites[node];
        if (open++ != 0) {
          result.recursive = true;
          return;
        }
        result.total += below_leaves[node];
        down_to_sites += below_sites[node];
      },
      [&](std::uint32_t node) {
        if (node == 0) return;
        if (is_wanted(nodes[node].parent)) callees.leave(nodes[node].key);
        if (!is_wanted(node)) return;
        callers.leave(caller_key(node));
        --open;
      });
  result.as_helper = difference(result.total, down_to_sites);
  result.callers = callers.take();
  result.callees = callees.take();
  return result;
}

}  // namespace heapprof::views
