// heapprof report: totals, and the stacks that cost most.
#include <CLI/CLI.hpp>
#include <memory>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/cli/commands/trace_command.h"

namespace heapprof::cli {
namespace {

struct ReportOptions {
  TraceOptions trace;
  Cost cost = Cost::kPeak;
  std::size_t top = 10;
  std::size_t frames = 12;
  bool shared_frames = false;
};

void print_report(const ReportOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  std::vector<RankedStack> stacks = rank_stacks(profile, options.cost);
  const std::size_t all = stacks.size();
  if (options.top != 0 && stacks.size() > options.top) stacks.resize(options.top);
  std::vector<std::uint32_t> nodes;
  for (const RankedStack& stack : stacks) nodes.push_back(stack.node);
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes);
  if (options.trace.json)
    return write_report(options.trace.output, report_json(profile, options.cost, stacks, names), stacks, names,
                        options.shared_frames);
  ReportText text(profile, style_for(options.trace.output, options.frames));
  text.head().stacks(options.cost, stacks, all, names).notes(names.warnings());
  write_output(options.trace.output, text.text());
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App* const command =
      app.add_subcommand("report", "Tell where the memory went: totals and the costliest stacks");
  add_trace_options(*command, options->trace);
  command
      ->add_option("--top", options->top, "How many stacks; 0 is all")
      ->transform(whole_number())
      ->capture_default_str();
  command
      ->add_option("--frames", options->frames, "Lines a stack at most; 0 is all")
      ->transform(whole_number())
      ->capture_default_str();
  add_shared_frames(*command, options->shared_frames);
  command->add_option("--cost", options->cost, "What stacks are ranked by")
      ->transform(one_of(cost_names()))
      ->default_str("peak");
  command->callback([options, &status] {
    status =
        run_on_trace(options->trace, [&](const replay::Analysis& analysis) { print_report(*options, analysis); });
  });
}

}  // namespace heapprof::cli
