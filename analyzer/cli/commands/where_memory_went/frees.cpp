// heapprof frees: frees by allocating and freeing stack. The stacks of frees are recorded with HEAPPROF_FREE_STACKS=1
// only; those of realloc, which frees its old block, are in every recording, unless another block got the address
// before the call returned, or the new block is not recorded: realloc(block, 0), and in a pause.
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/second_pass.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/model/free_pairs.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

using render::exact_number;
using render::human_bytes;
using render::percent;

bool free_stacks_recorded(const model::Profile& profile) {
  for (const auto& [name, value] : profile.recording.settings)
    if (name == "HEAPPROF_FREE_STACKS") return value != "0" && value != "off" && value != "no";
  return false;
}

void print_frees(const FreesOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  model::PairSums pairs;
  model::BlockSum with_stack;
  model::BlockSum without_stack;
  replay_events(options.trace, analysis, [&](const replay::ProfileEvent& event) {
    if (event.kind != replay::ResolvedKind::kFree) return;
    if (event.freeing_node == model::kNoIndex) return without_stack.add(event.size);
    with_stack.add(event.size);
    pairs.add(event.node, event.freeing_node, event.size);
  });
  std::vector<model::PairSums::Entry> ranked = pairs.entries();
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.sum.blocks > b.sum.blocks; });
  const std::size_t all = ranked.size();
  if (options.top != 0 && ranked.size() > options.top) ranked.resize(options.top);
  std::vector<std::uint32_t> nodes;
  for (const auto& pair : ranked) {
    nodes.push_back(pair.from);
    nodes.push_back(pair.to);
  }
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes);
  const bool recorded = free_stacks_recorded(profile);
  if (options.trace.json) {
    Json json = head_json(profile);
    json["free_stacks_recorded"] = recorded;
    json["known"] = {{"blocks", with_stack.blocks}, {"bytes", with_stack.bytes}};
    json["unknown"] = {{"blocks", without_stack.blocks}, {"bytes", without_stack.bytes}};
    json["all_pairs"] = all;
    StackList stacks(names, options.shared_frames);
    Json list = Json::array();
    for (const auto& pair : ranked) {
      Json entry = {{"blocks", pair.sum.blocks}, {"bytes", pair.sum.bytes}};
      entry["allocated_by"] = stacks.stack(pair.from);
      entry["freed_by"] = stacks.stack(pair.to);
      if (!options.shared_frames) entry["released_by"] = entry["freed_by"];  // old name, for one release
      list.push_back(std::move(entry));
    }
    json["pairs"] = std::move(list);
    stacks.add_frames_to(json);
    json["symbol_warnings"] = names.warnings();
    return write_output(options.trace.output, dump(json));
  }
  ReportText text(profile, style_for(options.trace.output, options.frames));
  text.title().line();
  const std::uint64_t frees = with_stack.blocks + without_stack.blocks;
  text.row("with stack", percent(with_stack.blocks, frees), "of " + exact_number(frees) + " frees");
  if (!recorded)
    text.paragraph(
        "The stacks of frees were not recorded; 'heapprof record --free-stacks' records them. The frees below are "
        "those of realloc, whose stacks are recorded without it.");
  std::string heading = "Frees by allocating and freeing stack";
  if (ranked.size() < all)
    heading += " (" + std::to_string(ranked.size()) + " of " + exact_number(all) + " pairs of stacks)";
  text.heading(heading);
  if (ranked.empty()) text.line("  none");
  std::size_t number = 0;
  for (const auto& pair : ranked) {
    text.stack(++number,
               text.bold(exact_number(pair.sum.blocks)) + (pair.sum.blocks == 1 ? " block, " : " blocks, ") +
                   human_bytes(pair.sum.bytes) + ", allocated by",
               pair.from, names);
    text.line("     freed by");
    text.frames(pair.to, names);
  }
  text.notes(names.warnings());
  write_output(options.trace.output, text.text());
}

}  // namespace

int run_frees(const FreesOptions& options) {
  return run_on_trace(options.trace, [&](const replay::Analysis& analysis) { print_frees(options, analysis); });
}

}  // namespace heapprof::cli
