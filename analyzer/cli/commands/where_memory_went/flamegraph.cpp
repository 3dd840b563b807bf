// heapprof flamegraph: all stacks at once, as a picture or as folded text.
#include "analyzer/render/flamegraph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/pinned.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/processes_text.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/pins/pin_groups.h"
#include "analyzer/render/flame_tree.h"
#include "analyzer/render/text_sink.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

/// Whether `cost` is what of the slice is live at the moment of --survivors, or at the slice's end.
bool is_of_slice(Cost cost, const model::Profile& profile) {
  return profile.slice && (cost == Cost::kLeaked || (profile.survivors_ns && is_of_live_blocks(cost)));
}

std::string words_for(Cost cost, const model::Profile& profile) {
  if (is_of_slice(cost, profile)) return "bytes " + lower_case(live_words(profile));
  switch (cost) {
    case Cost::kPeak:
      return "bytes live at " + (profile.is_moment() ? render::human_time(*profile.moment_ns())
                                 : profile.together  ? "the peaks of the recordings"
                                                     : "the peak");
    case Cost::kLeaked: return "bytes live at the end";
    case Cost::kAllocated: return "bytes " + lower_case(allocated_words(profile));
    case Cost::kAllocations: return "allocations";
    case Cost::kTemporary: return "temporary allocations";
    case Cost::kLive: return "bytes live at " + render::human_time(profile.live_at_ns.value_or(profile.end_ns()));
  }
  return "";
}

std::string title_for(Cost cost, const model::Profile& profile) {
  if (is_of_slice(cost, profile)) return live_words(profile) + ": ";
  switch (cost) {
    case Cost::kPeak:
      if (profile.together && !profile.is_moment()) return "Peak heaps of the processes of ";
      return profile.is_moment() ? "Live heap at " + render::human_time(*profile.moment_ns()) + " of "
                                 : "Peak heap of ";
    case Cost::kLeaked: return "Leaks of ";
    case Cost::kAllocated: return "Memory allocated by ";
    case Cost::kAllocations: return "Allocations of ";
    case Cost::kTemporary: return "Temporary allocations of ";
    case Cost::kLive:
      return "Live heap at " + render::human_time(profile.live_at_ns.value_or(profile.end_ns())) + " of ";
  }
  return "";
}

/// The root of truncated stacks, whose outer frames are unknown.
render::FlameFrame truncation_root(const model::CallNode& call) {
  return {.function = truncation_frame(call.truncated)};
}

render::FlameFrame flame_frame(const Frame& frame) {
  render::FlameFrame flame;
  flame.function = name_in_flame_graph(frame);
  flame.module = frame.module->path;
  flame.file = frame.file;
  flame.line = frame.line > 0 ? static_cast<std::uint32_t>(frame.line) : 0;
  flame.inlined = frame.inlined;
  return flame;
}

/// The stacks of one program.
struct ProgramStacks {
  std::string program;  ///< the outermost frame; empty: no such frame
  std::vector<RankedStack> stacks;
};

render::FlameFrame program_frame(const ProgramStacks& one) { return {.function = render::clean_utf8(one.program)}; }

/// The allocating functions are at the root, their callers above them.
void add_bottom_up(render::FlameTree& tree, const model::Profile& profile, const StackNames& names,
                   const FrameFilter& filter, const ProgramStacks& of_program, Cost cost) {
  std::vector<std::vector<render::FlameTree::Frame>> frames_of(profile.nodes.size());
  for (const RankedStack& stack : of_program.stacks) {
    render::FlameTree::Node at = render::FlameTree::kRoot;
    for (std::uint32_t node = stack.node; node != 0; node = profile.nodes[node].parent) {
      std::vector<render::FlameTree::Frame>& frames = frames_of[node];
      if (frames.empty()) {
        if (profile.nodes[node].address == model::kNoIndex)
          frames.push_back(tree.frame(truncation_root(profile.nodes[node])));
        for (const Frame& frame : filter.shown(names.frames_of_node(node)))
          frames.push_back(tree.frame(flame_frame(frame)));
      }
      for (const render::FlameTree::Frame frame : frames) at = tree.child(at, frame);
    }
    if (at == render::FlameTree::kRoot && stack.node != 0) at = tree.child(at, tree.frame({.function = kNoOwnCode}));
    if (!of_program.program.empty()) at = tree.child(at, tree.frame(program_frame(of_program)));
    tree.add(at, ranks_by_blocks(cost) ? stack.blocks : stack.bytes);
  }
}

void add_top_down(render::FlameTree& tree, const model::Profile& profile, const StackNames& names,
                  const FrameFilter& filter, const ProgramStacks& of_program, Cost cost) {
  // Only the nodes of stacks with a cost; the call tree may have many more.
  std::vector<bool> wanted(profile.nodes.size(), false);
  for (const RankedStack& stack : of_program.stacks)
    for (std::uint32_t node = stack.node; node != 0 && !wanted[node]; node = profile.nodes[node].parent)
      wanted[node] = true;

  const render::FlameTree::Node root =
      of_program.program.empty() ? render::FlameTree::kRoot
                                 : tree.child(render::FlameTree::kRoot, tree.frame(program_frame(of_program)));
  std::vector<render::FlameTree::Node> node_of(profile.nodes.size(), root);
  for (std::uint32_t node = 1; node < profile.nodes.size(); ++node) {
    if (!wanted[node]) continue;
    const model::CallNode& call = profile.nodes[node];
    render::FlameTree::Node at = node_of[call.parent];
    if (call.address == model::kNoIndex) {
      node_of[node] = tree.child(at, tree.frame(truncation_root(call)));
      continue;
    }
    const std::vector<Frame> frames = filter.shown(names.frames_of_node(node));
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      at = tree.child(at, tree.frame(flame_frame(*frame)));
    }
    node_of[node] = at;
  }
  for (const RankedStack& stack : of_program.stacks) {
    render::FlameTree::Node at = node_of[stack.node];
    if (at == root && stack.node != 0) at = tree.child(at, tree.frame({.function = kNoOwnCode}));
    tree.add(at, ranks_by_blocks(cost) ? stack.blocks : stack.bytes);
  }
}

/// The bytes of each granule at the function that all its stacks have in common.
render::FlameTree build_pinned_tree(const FlamegraphOptions& options, const replay::Analysis& analysis,
                                    std::vector<pins::PinningBlock> live) {
  const model::Profile& profile = analysis.profile();
  const std::vector<std::uint64_t> bytes =
      pins::bytes_at_common_callers(profile, read_pinned_memory(options.trace, analysis, std::move(live)).kept.sets);
  std::vector<RankedStack> stacks;
  for (std::uint32_t node = 1; node < bytes.size(); ++node)
    if (bytes[node] != 0) stacks.push_back({node, bytes[node], 1});
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_of(stacks));
  render::FlameTree tree;
  add_top_down(tree, profile, names, FrameFilter(profile, options.call_sites), {{}, stacks}, Cost::kPeak);
  if (!bytes.empty() && bytes[0] != 0)
    tree.add(tree.child(render::FlameTree::kRoot, tree.frame({.function = "[stacks without a common caller]"})),
             bytes[0]);
  return tree;
}

/// The stacks of all, or of each program of several recordings.
std::vector<ProgramStacks> stacks_by_program(const model::Profile& profile, const MergedRecordings* merged,
                                             Cost cost) {
  std::vector<ProgramStacks> all;
  if (merged == nullptr) {
    all.push_back({{}, rank_stacks(profile, cost)});
    return all;
  }
  for (const MergedRecordings::Program& program : merged->programs) {
    ProgramStacks& one =
        all.emplace_back(ProgramStacks{program.name.empty() ? "[unknown program]" : program.name, {}});
    for (const auto& [node, costs] : program.costs) {
      const RankedStack figures = figures_of(costs, cost);
      if (figures.bytes != 0 || figures.blocks != 0) one.stacks.push_back({node, figures.bytes, figures.blocks});
    }
    std::ranges::sort(one.stacks, {}, &RankedStack::node);
  }
  return all;
}

render::FlameTree build_cost_tree(const FlamegraphOptions& options, const model::Profile& profile,
                                  const MergedRecordings* merged) {
  const std::vector<RankedStack> stacks = rank_stacks(profile, options.cost);
  StackNames names(profile, options.trace.symbols);
  names.resolve(options.call_sites.own.empty() ? nodes_of(stacks) : nodes_with_costs(profile));
  report_unmatched_own_code(unmatched_own_code(profile, names, options.call_sites), options.call_sites,
                            merged == nullptr ? "this recording" : "these recordings");
  const FrameFilter filter(profile, options.call_sites);
  render::FlameTree tree;
  for (const ProgramStacks& one : stacks_by_program(profile, merged, options.cost)) {
    if (options.bottom_up) add_bottom_up(tree, profile, names, filter, one, options.cost);
    else if (!one.stacks.empty()) add_top_down(tree, profile, names, filter, one, options.cost);
  }
  return tree;
}

void print_flamegraph(const FlamegraphOptions& options, const model::Profile& profile,
                      const render::FlameTree& tree) {
  const std::string cost = options.pinned ? "bytes of pinned memory" : words_for(options.cost, profile);

  std::string text;
  const render::TextSink sink = [&](std::string_view piece) { text += piece; };
  if (options.format == FlamegraphOptions::Format::kFolded) {
    render::write_folded(tree, sink);
  } else {
    render::FlameOptions flame;
    const std::string program = profile.together ? command_of(profile) : base_name(profile.recording.program);
    flame.title = (options.pinned ? "Pinned memory at " + render::human_time(profile.end_ns()) + " of "
                                  : title_for(options.cost, profile)) +
                  (program.empty() ? "an unknown program" : program);
    flame.cost = cost;
    flame.bottom_up = options.bottom_up;
    flame.full_names = options.call_sites.view.full_names;
    if (options.bottom_up) flame.title += ", bottom-up";
    flame.unit = ranks_by_blocks(options.cost) ? render::Unit::kCount : render::Unit::kBytes;
    if (profile.together) flame.context = {{"Recorded", sentence_of(profile)}};
    else flame.context = {{"Program", command_of(profile)}, {"Ended", ending_of(profile)}};
    if (profile.slice)
      flame.context.push_back(
          {"From", render::human_time(profile.begin_ns()) + " to " + render::human_time(profile.slice->to_ns)});
    if (!profile.selection_text.empty()) flame.context.push_back({"Only", profile.selection_text});
    if (!used_project_file.empty()) flame.context.push_back({"Settings", used_project_file});
    if (options.call_sites.view.only_own) flame.context.push_back({"Frames", "own code only"});
    if (options.cost == Cost::kPeak && !options.pinned && (!profile.together || profile.is_moment())) {
      const bool has_time = profile.is_moment() || profile.totals.peak_bytes != 0;
      flame.context.push_back({profile.is_moment() ? "Live" : "Peak",
                               has_time ? "at " + render::human_time(profile.peak_time_ns) : "no byte was live"});
    }
    render::write_flamegraph_svg(tree, flame, sink);
  }
  write_output(options.trace.output, text);
  if (tree.nodes().size() == 1 && tree.nodes()[0].self == 0 && !profile.totals.empty())
    print_message(options.trace.trace + ": nothing to show: no " + cost);
}

}  // namespace

int run_flamegraph(const FlamegraphOptions& given) {
  return guarded(given.trace.trace, [&] {
    FlamegraphOptions options = given;
    if (options.pinned) choose_known_moment(options.trace);
    if (!options.trace.traces.empty())
      return run_on_recordings(for_costs(options.trace), [&](const RecordingSet&, const MergedRecordings& merged) {
        print_flamegraph(options, merged.profile, build_cost_tree(options, merged.profile, &merged));
      });
    std::vector<pins::PinningBlock> live;
    return run_on_trace(
        options.pinned ? options.trace : for_costs(options.trace),
        [&](const replay::Analysis& analysis) {
          const model::Profile& profile = analysis.profile();
          if (options.pinned) {
            if (options.has_moment) refuse_moment_after_end(options.trace, profile);
            print_flamegraph(options, profile, build_pinned_tree(options, analysis, std::move(live)));
          } else {
            print_flamegraph(options, profile, build_cost_tree(options, profile, nullptr));
          }
        },
        options.pinned ? collect_into(live) : replay::LeakVisitor{});
  });
}

}  // namespace heapprof::cli
