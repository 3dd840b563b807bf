#include "analyzer/cli/top/live_tree.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "analyzer/cli/text/interpreter_frames.h"
#include "analyzer/model/call_tree.h"
#include "analyzer/replay/analysis/profile_parts.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/trace/embedded_symbols.h"
#include "analyzer/views/frame_tree.h"

namespace heapprof::cli {
namespace {

/// The costs of all stacks, from which helpers are found: those that a report would find now.
void fill_costs(const live::LiveState& state, const std::vector<std::uint32_t>& node_of_index,
                model::Profile& profile) {
  const std::size_t count = std::min(state.nodes().size(), node_of_index.size());
  for (std::size_t index = 0; index < count; ++index) {
    const live::LiveSums& sums = state.nodes()[index];
    if (sums.allocations == 0) continue;
    model::Costs costs;
    costs.allocations = sums.allocations;
    costs.allocated_bytes = sums.allocated_bytes;
    costs.leaked_bytes = costs.live_bytes = sums.live_bytes;
    costs.leaked_blocks = costs.live_blocks = sums.live_blocks;
    if (index < state.moved().size()) {
      costs.moved_bytes = state.moved()[index].bytes;
      costs.moved_blocks = state.moved()[index].blocks;
    }
    profile.nodes[node_of_index[index]].costs += costs;
    profile.totals += costs;
  }
}

/// `names`, with the frames of all stacks that have allocated.
const StackNames& resolved(StackNames& names, const model::Profile& profile, KnownFrames& known) {
  names.resolve(nodes_with_costs(profile), &known);
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
  const trace::TraceFile* const file = follower.finished_file();
  if (built_ == nullptr && file != nullptr && file->symbols()) {
    const auto packed = trace::read_symbols(file->input(), file->file_id(), *file->symbols());
    if (packed) embedded_symbols_ = symbols::decode_shared_symbols(*packed);
  }
  model::Profile profile;
  profile.recording = replay::describe_process(follower.header(), follower.definitions());
  profile.embedded_symbols = embedded_symbols_;
  model::FindFolded find_folded;
  if (folds_interpreter_frames(symbols_))
    find_folded = [&](const std::vector<model::Module>& modules, const std::vector<model::CodeAddress>& asked) {
      profile.modules = modules;
      return find_interpreter_frames(profile, asked, symbols_, &known_);
    };
  model::LinkedTree tree = model::link_tree(follower.definitions(), find_folded);
  profile.python_symbols = std::move(tree.python_symbols);
  profile.modules = std::move(tree.modules);
  profile.addresses = std::move(tree.addresses);
  profile.nodes = std::move(tree.nodes);
  for (const live::LiveThread& from : state.threads()) {
    model::Thread thread;
    thread.tid = from.tid;
    thread.name = from.name;
    thread.allocations = from.sums.allocations;
    thread.allocated_bytes = from.sums.allocated_bytes;
    profile.threads.push_back(std::move(thread));
  }
  fill_costs(state, tree.node_of_index, profile);
  has_costs_.assign(tree.node_of_index.size(), false);
  for (std::size_t index = 0; index < std::min(has_costs_.size(), state.nodes().size()); ++index)
    has_costs_[index] = state.nodes()[index].allocations != 0;
  built_ = std::make_unique<Built>(std::move(profile), std::move(tree.node_of_index), symbols_, call_sites_, known_);
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
