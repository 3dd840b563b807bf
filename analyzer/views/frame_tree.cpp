#include "analyzer/views/frame_tree.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/tree_walk.h"

namespace heapprof::views {
namespace {

std::uint32_t count_keys(const findings::CodeFrames& frames, Level level) {
  const model::Profile& profile = frames.profile();
  if (level == Level::kFunction) return static_cast<std::uint32_t>(frames.functions().size());
  if (level == Level::kModule) return static_cast<std::uint32_t>(profile.modules.size());
  std::uint32_t count = 0;
  for (std::uint32_t address = 0; address < profile.addresses.size(); ++address)
    for (const std::uint32_t line : frames.lines_at(address)) count = std::max(count, line + 1);
  return count;
}

}  // namespace

FrameTree::FrameTree(const findings::CodeFrames& frames, const findings::Helpers& helpers, Level level, Scope scope)
    : frames_(frames), level_(level), scope_(scope), key_count_(count_keys(frames, level)), nodes_(1) {
  add_stacks(helpers);
  mark_recursion();
}

std::uint32_t FrameTree::key_of(findings::FrameRef frame) const {
  switch (level_) {
    case Level::kFunction: return frames_.function_of(frame);
    case Level::kLine: return frames_.lines_at(frame.address)[frame.index];
    case Level::kModule: return frames_.profile().addresses[frame.address].module;
  }
  return model::kNoIndex;
}

void FrameTree::add_stacks(const findings::Helpers& helpers) {
  const std::vector<model::CallNode>& calls = frames_.profile().nodes;
  const std::vector<findings::FrameRef> sites = findings::find_site_frames(frames_, helpers, scope_);
  std::unordered_map<std::uint64_t, std::uint32_t, ChosenKeyHash> known;  // by parent and key
  leaf_of_stack_.assign(calls.size(), 0);
  site_of_stack_.assign(calls.size(), 0);
  for (std::uint32_t call = 1; call < calls.size(); ++call) {
    std::uint32_t at = leaf_of_stack_[calls[call].parent];
    const std::uint32_t address = calls[call].address;
    if (address != model::kNoIndex) {
      for (auto index = static_cast<std::uint32_t>(frames_.functions_at(address).size()); index-- > 0;) {
        const findings::FrameRef frame{address, index};
        if (scope_ == Scope::kOwn && frames_.at(frame).origin != findings::Origin::kOwn) continue;
        const std::uint32_t key = key_of(frame);
        const auto [found, fresh] =
            known.try_emplace(std::uint64_t{at} << 32 | key, static_cast<std::uint32_t>(nodes_.size()));
        if (fresh) nodes_.push_back({at, key, frame});
        at = found->second;
        if (frame == sites[call]) site_of_stack_[call] = at;
      }
    }
    leaf_of_stack_[call] = at;
    if (site_of_stack_[call] == 0 && sites[call].exists())
      site_of_stack_[call] = sites[call] == sites[calls[call].parent] ? site_of_stack_[calls[call].parent]
                                                                      : nearest_above(at, key_of(sites[call]));
  }
}

/// The node with this key that is `node` or the first above it; 0: there is none.
std::uint32_t FrameTree::nearest_above(std::uint32_t node, std::uint32_t key) const {
  while (node != 0 && nodes_[node].key != key) node = nodes_[node].parent;
  return node;
}

void FrameTree::mark_recursion() {
  std::vector<std::uint32_t> open(key_count_, 0);
  findings::walk_tree(
      nodes_,
      [&](std::uint32_t node) {
        if (node != 0) nodes_[node].outermost = open[nodes_[node].key]++ == 0;
      },
      [&](std::uint32_t node) {
        if (node != 0) --open[nodes_[node].key];
      });
}

std::vector<model::Costs> FrameTree::placed(const std::vector<std::uint32_t>& node_of_stack) const {
  const std::vector<model::CallNode>& calls = frames_.profile().nodes;
  std::vector<model::Costs> costs(nodes_.size());
  for (std::uint32_t call = 0; call < calls.size(); ++call) costs[node_of_stack[call]] += calls[call].costs;
  return costs;
}

std::vector<model::Costs> FrameTree::summed(std::vector<model::Costs> costs) const {
  for (auto node = static_cast<std::uint32_t>(costs.size()); node-- > 1;) costs[nodes_[node].parent] += costs[node];
  return costs;
}

}  // namespace heapprof::views
