// heapprof churn: short-lived allocations by call site.
#include "analyzer/model/churn.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/commands/shared/second_pass.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

using model::ChurnCosts;
using render::exact_number;
using render::human_bytes;
using render::human_time;
using render::percent;

Json costs_json(const ChurnCosts& costs) {
  Json json;
  json["allocations"] = costs.allocations;
  json["allocated_bytes"] = costs.allocated_bytes;
  set_renamed(json, "freed", "released", costs.freed);
  json["short_lived"] = costs.short_lived;
  json["short_lived_bytes"] = costs.short_lived_bytes;
  json["temporary"] = costs.temporary;
  json["mean_lifetime_ns"] = costs.freed == 0 ? Json(nullptr) : Json(costs.mean_lifetime_ns());
  return json;
}

struct ChurnSums {
  model::Churn churn;
  void add(const replay::ProfileEvent& event) {
    if (event.kind == replay::ResolvedKind::kAllocation) churn.allocated(event.node, event.size);
    else if (event.kind == replay::ResolvedKind::kFree)
      churn.freed(event.node, event.size, lifetime_of(event), event.temporary);
  }
  bool has_options_of(const ChurnSums& other) const noexcept { return churn.short_ns() == other.churn.short_ns(); }
};

void print_churn(const ChurnOptions& options, const replay::Analysis& analysis, const model::Churn& churn) {
  const model::Profile& profile = analysis.profile();
  const std::vector<ChurnCosts> costs_of_nodes = by_node(analysis, churn.costs());
  ChurnCosts total;
  for (const ChurnCosts& costs : costs_of_nodes) total += costs;
  StackNames names(profile, options.trace.symbols);
  // The stacks of a site that have no short-lived block count, too: the share of a site is that of all its blocks.
  auto sites = costs_by_site(
      profile, names, options.call_sites, costs_of_nodes,
      [](const ChurnCosts& costs) { return costs.short_lived + costs.temporary; },
      [](const ChurnCosts& costs) { return costs.allocations != 0; });
  const std::size_t all_sites = sites.size();
  const std::string count = keep_first_sites(sites, options.top);
  if (options.trace.json) {
    Json json = head_json(profile);
    json["within_ns"] = options.within_ns;
    json["total"] = costs_json(total);
    json["all_sites"] = all_sites;
    json["sites"] = sites_json(names, sites, costs_json);
    json["symbol_warnings"] = names.warnings();
    return write_output(options.trace.output, dump(json));
  }
  ReportText text(profile, style_for(options.trace.output, options.call_sites.view));
  text.title().line();
  text.row("short-lived", percent(total.short_lived, total.allocations),
           exact_number(total.short_lived) + " of " + exact_number(total.allocations) + " blocks freed within " +
               human_time(options.within_ns) + ", " + human_bytes(total.short_lived_bytes) + " in total");
  text.row("temporary", percent(total.temporary, total.allocations),
           exact_number(total.temporary) + " freed before their thread's next allocation");
  text.heading("Short-lived and temporary allocations by call site" + count);
  const auto sizes = sizes_of(sites, [](const ChurnCosts& costs) { return costs.short_lived_bytes; });
  std::vector<std::vector<std::string>> rows;
  for (const auto& [site, costs] : sites) {
    rows.push_back({exact_number(costs.short_lived), percent(costs.short_lived, costs.allocations),
                    exact_number(costs.temporary), sizes.text(costs.short_lived_bytes),
                    costs.freed == 0 ? "-" : human_time(costs.mean_lifetime_ns()),
                    site_name(site.frame, text.style().full_names)});
  }
  if (rows.empty()) text.line("  none");
  else text.table({"short", "of site", "temporary", "bytes", "mean life", "call site"}, rows);
  if (!sites.empty()) {
    const Cost cost = sites.front().costs.temporary != 0 ? Cost::kTemporary : Cost::kAllocations;
    NextCommands(options.trace)
        .add("Callers of the first", "callers", name_in_table(sites.front().site.frame, false), cost_words(cost))
        .write(text);
  }
  text.notes(names.warnings());
  write_output(options.trace.output, text.text());
}

}  // namespace

std::unique_ptr<FollowedSums> new_churn_sums() {
  return std::make_unique<FollowedSumsOf<ChurnSums>>(ChurnSums{model::Churn(ChurnOptions{}.within_ns)});
}

int run_churn(const ChurnOptions& options) {
  return run_with_events<ChurnSums>(
      for_costs(options.trace), {model::Churn(options.within_ns)},
      [&](const replay::Analysis& analysis, ChurnSums& sums) { print_churn(options, analysis, sums.churn); });
}

}  // namespace heapprof::cli
