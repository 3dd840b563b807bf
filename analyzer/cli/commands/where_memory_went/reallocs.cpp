// heapprof reallocs: reallocated buffers by call site, and the bytes that realloc copied.
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/commands/shared/second_pass.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/model/realloc_chains.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

using model::ChainCosts;
using render::exact_number;
using render::human_bytes;
using render::percent;

Json chain_costs_json(const ChainCosts& costs) {
  Json json;
  json["steps"] = costs.steps;
  json["moved"] = costs.moved;
  json["copied_bytes"] = costs.copied_bytes;
  json["chains"] = costs.chains;
  json["longest"] = {
      {"steps", costs.longest}, {"first_bytes", costs.longest_first_bytes}, {"last_bytes", costs.longest_last_bytes}};
  return json;
}

struct ReallocSums {
  model::ReallocChains chains;
  void add(const replay::ProfileEvent& event) {
    if (event.kind == replay::ResolvedKind::kAllocation) {
      if (event.in_realloc)
        chains.stepped(event.old_address, event.allocated_ns, event.address, event.size, event.node);
    } else if (event.kind == replay::ResolvedKind::kFree) {
      if (event.in_realloc) chains.begin_step(event.address, event.allocated_ns, event.size);
      else chains.freed(event.address);
    }
  }
};

void print_reallocs(const ReallocsOptions& options, const replay::Analysis& analysis, model::ReallocChains& chains) {
  const model::Profile& profile = analysis.profile();
  chains.finish();
  const std::vector<ChainCosts> costs_of_nodes = by_node(analysis, chains.costs());
  ChainCosts total;
  for (const ChainCosts& costs : costs_of_nodes) total += costs;
  StackNames names(profile, options.trace.symbols);
  auto sites = costs_by_site(profile, names, options.call_sites, costs_of_nodes,
                             [](const ChainCosts& costs) { return std::max(costs.copied_bytes, costs.steps); });
  const std::size_t all_sites = sites.size();
  const std::string count = keep_first_sites(sites, options.top);
  if (options.trace.json) {
    Json json = head_json(profile);
    json["total"] = chain_costs_json(total);
    json["all_sites"] = all_sites;
    json["sites"] = sites_json(names, sites, chain_costs_json);
    json["symbol_warnings"] = names.warnings();
    return write_output(options.trace.output, dump(json));
  }
  ReportText text(profile, style_for(options.trace.output, options.call_sites.view));
  text.title().line();
  text.row("copied", human_bytes(total.copied_bytes), "at most, by realloc calls that moved their block");
  text.row("reallocs", exact_number(total.steps),
           "of " + exact_number(total.chains) + (total.chains == 1 ? " buffer, " : " buffers, ") +
               percent(total.moved, total.steps) + " of them moved their block");
  text.heading("Reallocated buffers by call site" + count);
  const auto sizes = sizes_of(sites, [](const ChainCosts& costs) { return costs.copied_bytes; });
  std::vector<std::vector<std::string>> rows;
  for (const auto& [site, costs] : sites) {
    rows.push_back({sizes.text(costs.copied_bytes), exact_number(costs.steps), percent(costs.moved, costs.steps),
                    exact_number(costs.chains), exact_number(costs.longest),
                    costs.longest == 0
                        ? "-"
                        : human_bytes(costs.longest_first_bytes) + " to " + human_bytes(costs.longest_last_bytes),
                    site_name(site.frame, text.style().full_names)});
  }
  if (rows.empty()) text.line("  none");
  else text.table({"copied", "calls", "moved", "buffers", "max/buffer", "first-last size", "call site"}, rows);
  if (!sites.empty())
    NextCommands(options.trace)
        .add("Callers of the first", "callers", name_in_table(sites.front().site.frame, false),
             cost_words(Cost::kAllocated))
        .write(text);
  text.notes(names.warnings());
  write_output(options.trace.output, text.text());
}

}  // namespace

std::unique_ptr<FollowedSums> new_realloc_sums() {
  return std::make_unique<FollowedSumsOf<ReallocSums>>(ReallocSums{});
}

int run_reallocs(const ReallocsOptions& options) {
  return run_with_events<ReallocSums>(
      for_costs(options.trace), {},
      [&](const replay::Analysis& analysis, ReallocSums& sums) { print_reallocs(options, analysis, sums.chains); });
}

}  // namespace heapprof::cli
