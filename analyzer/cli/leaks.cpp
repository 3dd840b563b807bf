// heapprof leaks: what was still live at the end, by the stacks that allocated it.
#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <sstream>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/report_json.h"
#include "analyzer/cli/report_text.h"
#include "analyzer/cli/suppressions.h"
#include "analyzer/cli/trace_command.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

struct LeakOptions {
  TraceOptions trace;
  std::vector<std::string> suppression_files;
  std::size_t top = 20;
  std::size_t frames = 12;
};

Suppressions read_suppressions(const std::vector<std::string>& files) {
  Suppressions suppressions;
  for (const std::string& path : files) {
    std::ifstream in(path);
    std::ostringstream text;
    if (!in || !(text << in.rdbuf())) throw OutputError(path + ": the suppressions cannot be read");
    if (const std::string bad = suppressions.add(text.str()); !bad.empty())
      throw OutputError(path + ": '" + bad + "' is no suppression; lines read leak:PATTERN");
  }
  return suppressions;
}

void print_leaks(const LeakOptions& options, const replay::Analysis& analysis) {
  const Suppressions suppressions = read_suppressions(options.suppression_files);
  const model::Profile& profile = analysis.profile();
  std::vector<RankedStack> stacks = rank_stacks(profile, Cost::kLeaked);
  const auto cut_to_top = [&] {
    if (options.top != 0 && stacks.size() > options.top) stacks.resize(options.top);
  };
  std::size_t all = stacks.size();
  // Only names tell which stacks are suppressed, so with suppressions all are looked up.
  if (suppressions.empty()) cut_to_top();
  std::vector<std::uint32_t> nodes;
  for (const RankedStack& stack : stacks) nodes.push_back(stack.node);
  Names names(profile, options.trace.symbols);
  names.resolve(nodes);
  RankedStack suppressed;
  if (!suppressions.empty()) {
    std::erase_if(stacks, [&](const RankedStack& stack) {
      if (!suppressions.fits(names.stack(stack.node))) return false;
      suppressed.bytes += stack.bytes;
      suppressed.blocks += stack.blocks;
      return true;
    });
    all = stacks.size();
    cut_to_top();
  }
  if (options.trace.json) {
    Json json = report_json(profile, Cost::kLeaked, stacks, names);
    json["suppressed"] = {{"bytes", suppressed.bytes}, {"blocks", suppressed.blocks}};
    return write_output(options.trace.output, dump(json));
  }
  ReportText text(profile, {.colour = wants_colour(options.trace.output), .frames = options.frames});
  text.leak_head();
  if (suppressed.blocks != 0)
    text.line("  of which " + render::human_bytes(suppressed.bytes) + " in " + render::block_count(suppressed.blocks) +
              (suppressed.blocks == 1 ? " is suppressed" : " are suppressed"));
  if (all != 0) text.stacks(Cost::kLeaked, stacks, all, names);
  text.notes(names.warnings());
  write_output(options.trace.output, text.text());
}

}  // namespace

void add_leaks(CLI::App& app, int& status) {
  const auto options = std::make_shared<LeakOptions>();
  CLI::App* const command = app.add_subcommand("leaks", "Tell what was live at the end, and who allocated it");
  add_trace_options(*command, options->trace);
  command->add_option("--suppressions", options->suppression_files, "File of accepted leaks, LeakSanitizer's format")
      ->allow_extra_args(false);
  command->add_option("--top", options->top, "How many stacks; 0 is all")->capture_default_str();
  command->add_option("--frames", options->frames, "Lines a stack at most; 0 is all")->capture_default_str();
  command->callback([options, &status] {
    status = run_on_trace(options->trace, [&](const replay::Analysis& analysis) { print_leaks(*options, analysis); });
  });
}

}  // namespace heapprof::cli
