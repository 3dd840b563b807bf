#include "analyzer/cli/top/live_profile.h"

#include <algorithm>
#include <utility>

#include "analyzer/cli/text/interpreter_frames.h"
#include "analyzer/model/call_tree.h"
#include "analyzer/replay/analysis/profile_parts.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/trace/embedded_symbols.h"

namespace heapprof::cli {
namespace {

/// The costs of all stacks: those that a report would find now.
void fill_live_costs(const live::LiveState& state, LiveProfile& live) {
  const std::size_t count = std::min(state.nodes().size(), live.node_of_index.size());
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
    live.profile.nodes[live.node_of_index[index]].costs += costs;
    live.profile.totals += costs;
  }
}

}  // namespace

LiveProfile LiveProfileMaker::make(const trace::Follower& follower, const live::LiveState& state,
                                   KnownFrames& known) {
  const trace::TraceFile* const file = follower.finished_file();
  if (!embedded_symbols_read_ && file != nullptr && file->symbols()) {
    const auto packed = trace::read_symbols(file->input(), file->file_id(), *file->symbols());
    if (packed) embedded_symbols_ = symbols::decode_shared_symbols(*packed);
  }
  embedded_symbols_read_ = true;
  LiveProfile live;
  model::Profile& profile = live.profile;
  profile.recording = replay::describe_process(follower.header(), follower.definitions());
  if (follower.ended())
    profile.recording.ended_realtime_ns = replay::latest_end_ns(
        profile.recording, {.kind = follower.header().end_kind,
                            .ended_by = follower.ended_by(),
                            .duration_ns = state.clock().to_ns(trace::Ticks{state.last_ticks()}),
                            .realtime_ns = follower.header().end_realtime_ns,
                            .modified_ns = file != nullptr ? file->input().modified_ns() : 0});
  profile.embedded_symbols = embedded_symbols_;
  model::FindFolded find_folded;
  if (folds_interpreter_frames(symbols_))
    find_folded = [&](const std::vector<model::Module>& modules, const std::vector<model::CodeAddress>& asked) {
      profile.modules = modules;
      return find_interpreter_frames(profile, asked, symbols_, &known);
    };
  model::LinkedTree tree = model::link_tree(follower.definitions(), find_folded);
  profile.python_symbols = std::move(tree.python_symbols);
  profile.modules = std::move(tree.modules);
  profile.addresses = std::move(tree.addresses);
  profile.nodes = std::move(tree.nodes);
  live.node_of_index = std::move(tree.node_of_index);
  for (const live::LiveThread& from : state.threads()) {
    model::Thread thread;
    thread.tid = from.tid;
    thread.name = from.name;
    thread.allocations = from.sums.allocations;
    thread.allocated_bytes = from.sums.allocated_bytes;
    profile.threads.push_back(std::move(thread));
  }
  fill_live_costs(state, live);
  return live;
}

}  // namespace heapprof::cli
