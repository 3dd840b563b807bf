// heapprof report: totals, and the call sites and stacks that cost most.
#include <algorithm>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/findings_json.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/keepers.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

std::string heading_of(Cost cost, const model::Profile& profile) {
  switch (cost) {
    case Cost::kPeak:
      if (profile.is_moment()) return "Live at " + render::human_time(*profile.live_at_ns);
      return profile.slice ? "Live at the slice's peak" : "Live at the peak";
    case Cost::kLeaked: return live_words(profile);
    case Cost::kAllocated: return "Allocated in total";
    case Cost::kAllocations:
      return profile.kind == model::Kind::kHeap   ? "Number of allocations"
             : profile.kind == model::Kind::kMmap ? "Number of mappings"
                                                  : "Number of allocations and mappings";
    case Cost::kTemporary: return "Temporary allocations";
  }
  return "";
}

/// The highest live bytes of each row's call site in each of kParts parts of the time, from a second replay.
void add_history(const ReportOptions& options, const replay::Analysis& analysis, const findings::CallSites& sites,
                 std::vector<SiteRow>& rows) {
  constexpr std::size_t kParts = 9;
  std::vector<std::uint32_t> row_of_site(sites.sites().size(), model::kNoIndex);
  for (std::uint32_t row = 0; row < rows.size(); ++row)
    row_of_site[static_cast<std::size_t>(rows[row].site - sites.sites().data())] = row;
  std::vector<std::uint32_t> row_of_node;
  for (const std::uint32_t site : sites.site_of_node())
    row_of_node.push_back(site == model::kNoIndex ? model::kNoIndex : row_of_site[site]);
  ProgressLine progress("Reading " + options.trace.trace + " again");
  const auto series =
      analysis.live_by_group(row_of_node, static_cast<std::uint32_t>(rows.size()),
                             [&](double share, std::uint64_t events) { progress.show(share, events); });
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row].over_time.assign(kParts, 0);
    const std::vector<std::uint64_t>& live = series[row];
    for (std::size_t i = 0; i < live.size(); ++i) {
      std::uint64_t& highest = rows[row].over_time[i * kParts / live.size()];
      highest = std::max(highest, live[i]);
    }
  }
}

/// The call sites, those that cost most first.
std::vector<SiteRow> rank_sites(const findings::CallSites& sites, Cost cost) {
  std::vector<SiteRow> ranked;
  for (const findings::CallSite& site : sites.sites()) ranked.push_back({&site});
  if (ranks_by_blocks(cost))
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const SiteRow& a, const SiteRow& b) { return a.site->held.blocks > b.site->held.blocks; });
  return ranked;
}

void print_json(const ReportOptions& options, const model::Profile& profile, const StackNames& names,
                const Findings& findings, const findings::HeldByNode& held, const SiteRanking& ranking) {
  std::vector<RankedStack> stacks = rank_stacks(profile, options.cost);
  if (options.top != 0 && stacks.size() > options.top) stacks.resize(options.top);
  Json json = report_json(profile, options.cost, stacks, names);
  Json& list = json["sites"] = Json::array();
  for (const SiteRow& row : ranking.rows)
    list.push_back(site_json(findings, *row.site, ranking.total, ranks_by_blocks(options.cost)));
  json["all_sites"] = ranking.all_sites;
  if (is_of_live_blocks(options.cost))
    json["keepers"] =
        keepers_json(findings, findings::find_keepers(findings.frames(), findings.helpers(), held), ranking.total);
  json["helpers"] = helpers_json(findings);
  write_report(options.trace.output, std::move(json), stacks, names, options.shared_frames);
}

void print_text(const ReportOptions& options, const model::Profile& profile, const StackNames& names,
                const Findings& findings, const findings::HeldByNode& held, const SiteRanking& ranking) {
  AnswerText text(profile, answer_style(options.trace.output, options.frames), names, findings);
  text.head();
  text.call_sites(ranking);
  if (is_of_live_blocks(options.cost))
    text.keepers(findings::find_keepers(findings.frames(), findings.helpers(), held), ranking.total);
  text.stacks(ranking, held, options.stacks).helpers(ranking);
  if (!ranking.rows.empty()) text.next_commands(ranking, options.stacks);
  text.notes(names.warnings());
  write_output(options.trace.output, text.text());
}

void print_report(const ReportOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_with_costs(profile));
  const Findings findings(profile, names, options.call_sites);
  findings::HeldByNode held;
  held.reserve(profile.nodes.size());
  for (const model::CallNode& node : profile.nodes) {
    const RankedStack stack = figures_of(node.costs, options.cost);
    held.push_back({stack.bytes, stack.blocks});
  }
  const findings::CallSites sites(findings.frames(), findings.helpers(), held);

  const RankedStack total = figures_of(profile.totals, options.cost);
  SiteRanking ranking;
  ranking.cost = options.cost;
  ranking.heading = heading_of(options.cost, profile);
  ranking.total = {total.bytes, total.blocks};
  ranking.all_sites = sites.sites().size();
  for (const findings::CallSite& site : sites.sites()) ranking.all_stacks += site.nodes.size();
  ranking.rows = rank_sites(sites, options.cost);
  if (options.top != 0 && ranking.rows.size() > options.top) ranking.rows.resize(options.top);
  if (options.trace.json) return print_json(options, profile, names, findings, held, ranking);

  // Mappings have no history: they are split and merged while they live.
  if (is_of_live_blocks(options.cost) && profile.kind == model::Kind::kHeap && !ranking.rows.empty()) {
    if (options.history.value_or(profile.events() <= kMaxEventsWithHistory))
      add_history(options, analysis, sites, ranking.rows);
    else ranking.lacks_history = !options.history.has_value();
  }
  print_text(options, profile, names, findings, held, ranking);
}

}  // namespace

int run_report(const ReportOptions& options) {
  return run_on_trace(options.trace, [&](const replay::Analysis& analysis) { print_report(options, analysis); });
}

}  // namespace heapprof::cli
