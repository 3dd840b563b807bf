// heapprof report: totals, and the call sites and stacks that cost most.
#include <algorithm>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/findings_json.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/keepers.h"

namespace heapprof::cli {
namespace {

/// Call sites, helpers, and for what is live also who keeps it.
void add_findings(Json& json, const ReportOptions& options, const model::Profile& profile, const Findings& findings) {
  findings::HeldByNode held;
  held.reserve(profile.nodes.size());
  for (const model::CallNode& node : profile.nodes) {
    const RankedStack stack = figures_of(node.costs, options.cost);
    held.push_back({stack.bytes, stack.blocks});
  }
  const RankedStack all = figures_of(profile.totals, options.cost);
  const findings::Held total{all.bytes, all.blocks};
  const bool by_blocks = ranks_by_blocks(options.cost);
  const findings::CallSites sites(findings.frames(), findings.helpers(), held);
  std::vector<const findings::CallSite*> ranked;
  for (const findings::CallSite& site : sites.sites()) ranked.push_back(&site);
  if (by_blocks)
    std::stable_sort(ranked.begin(), ranked.end(), [](const findings::CallSite* a, const findings::CallSite* b) {
      return a->held.blocks > b->held.blocks;
    });
  Json& list = json["sites"] = Json::array();
  for (const findings::CallSite* const site : ranked) {
    if (options.top != 0 && list.size() == options.top) break;
    list.push_back(site_json(findings, *site, total, by_blocks));
  }
  json["all_sites"] = ranked.size();
  if (options.cost == Cost::kPeak || options.cost == Cost::kLeaked)
    json["keepers"] =
        keepers_json(findings, findings::find_keepers(findings.frames(), findings.helpers(), held), total);
  json["helpers"] = helpers_json(findings);
}

void print_report(const ReportOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  std::vector<RankedStack> stacks = rank_stacks(profile, options.cost);
  const std::size_t all = stacks.size();
  if (options.top != 0 && stacks.size() > options.top) stacks.resize(options.top);
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_with_costs(profile));
  if (options.trace.json) {
    Json json = report_json(profile, options.cost, stacks, names);
    add_findings(json, options, profile, Findings(profile, names, options.call_sites));
    return write_report(options.trace.output, std::move(json), stacks, names, options.shared_frames);
  }
  ReportText text(profile, style_for(options.trace.output, options.frames));
  text.head().stacks(options.cost, stacks, all, names).notes(names.warnings());
  write_output(options.trace.output, text.text());
}

}  // namespace

int run_report(const ReportOptions& options) {
  return run_on_trace(options.trace, [&](const replay::Analysis& analysis) { print_report(options, analysis); });
}

}  // namespace heapprof::cli
