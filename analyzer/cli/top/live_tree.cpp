#include "analyzer/cli/top/live_tree.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "analyzer/views/frame_tree.h"

namespace heapprof::cli {
namespace {

/// `names`, with the frames of all stacks that have allocated.
const StackNames& resolved(StackNames& names, const model::Profile& profile, KnownFrames& known) {
  names.resolve(nodes_of_findings(profile), &known);
  return names;
}

}  // namespace

LiveTree::Built::Built(model::Profile of, std::vector<std::uint32_t> node_of, const symbols::Options& symbols,
                       const CallSiteOptions& call_sites, KnownFrames& known)
    : profile(std::move(of)), node_of_index(std::move(node_of)), names(profile, symbols),
      findings(profile, resolved(names, profile, known), call_sites) {}

live::LiveSums LiveTree::new_stacks(const live::LiveState& state) const noexcept {
  live::LiveSums sums;
  const std::vector<live::LiveSums>& nodes = state.nodes();
  for (std::size_t index = 0; index < nodes.size(); ++index)
    if (nodes[index].allocations != 0 && (index >= has_costs_.size() || !has_costs_[index])) sums += nodes[index];
  return sums;
}

void LiveTree::rebuild(const trace::Follower& follower, const live::LiveState& state) {
  LiveProfile live = live_profile_.make(follower, state, known_);
  has_costs_.assign(live.node_of_index.size(), false);
  for (std::size_t index = 0; index < std::min(has_costs_.size(), state.nodes().size()); ++index)
    has_costs_[index] = state.nodes()[index].allocations != 0;
  built_ =
      std::make_unique<Built>(std::move(live.profile), std::move(live.node_of_index), symbols_, call_sites_, known_);
}

LiveGroups LiveTree::groups(views::By by, views::Scope scope) const {
  const findings::CodeFrames& frames = built_->findings.frames();
  const findings::Helpers& helpers = built_->findings.helpers();
  LiveGroups result;
  views::StackGroups groups;
  const auto from_tree = [&](views::Level level) {
    const views::FrameTree tree(frames, helpers, level, scope);
    result.rows = views::rows_of(tree);
    groups = views::groups_of(tree);
  };
  switch (by) {
    case views::By::kSite:
      result.rows = views::rows_by_site(frames, helpers, scope);
      groups = views::groups_by_site(frames, helpers, scope);
      break;
    case views::By::kStack:
      result.rows = views::rows_by_stack(frames, helpers, scope);
      groups.resize(built_->profile.nodes.size());
      std::iota(groups.begin(), groups.end(), 0);
      break;
    case views::By::kFunction: from_tree(views::Level::kFunction); break;
    case views::By::kLine: from_tree(views::Level::kLine); break;
    case views::By::kModule: from_tree(views::Level::kModule); break;
    case views::By::kThread:
    case views::By::kProcess:
    case views::By::kProgram: return result;
  }
  std::unordered_map<std::uint32_t, std::uint32_t> row_of_group;
  for (std::uint32_t row = 0; row < result.rows.size(); ++row) row_of_group.emplace(result.rows[row].group, row);
  result.row_of_index.assign(built_->node_of_index.size(), model::kNoIndex);
  for (std::size_t index = 0; index < result.row_of_index.size(); ++index) {
    if (!has_costs_[index]) continue;
    const auto row = row_of_group.find(groups[built_->node_of_index[index]]);
    if (row != row_of_group.end()) result.row_of_index[index] = row->second;
  }
  return result;
}

}  // namespace heapprof::cli
