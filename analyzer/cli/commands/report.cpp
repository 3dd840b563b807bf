// heapprof report: totals, and the stacks that cost most.
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"

namespace heapprof::cli {
namespace {

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

int run_report(const ReportOptions& options) {
  return run_on_trace(options.trace, [&](const replay::Analysis& analysis) { print_report(options, analysis); });
}

}  // namespace heapprof::cli
