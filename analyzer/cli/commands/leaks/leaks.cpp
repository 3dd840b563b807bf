// heapprof leaks: blocks that were live at the end, by the call sites and stacks that allocated them.
//
// Which stacks leak is known only after the trace was replayed. The live bytes of those stacks over time come from an
// index, or from a second replay with a few counters per stack (model/leak_history.h).
#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/leaks/leak_classes.h"
#include "analyzer/cli/commands/leaks/leak_histories.h"
#include "analyzer/cli/commands/leaks/leaks_text.h"
#include "analyzer/cli/commands/leaks/suppressed_leaks.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/findings_json.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/keepers.h"
#include "analyzer/findings/leak_weight.h"
#include "analyzer/model/leak_history.h"

namespace heapprof::cli {
namespace {

using model::Growth;
using model::LeakTrend;

using Order = LeaksOptions::Order;

struct TrendWords {
  Growth growth;
  const char* json;      ///< value of "trend", and key in "trends"
  const char* json_old;  ///< the same in "growth", the old name, for one release
};
constexpr TrendWords kTrends[] = {{Growth::kGrowing, "growing", "growing"},
                                  {Growth::kStable, "stable", "kept"},
                                  {Growth::kInUse, "in_use", "in_use"}};

const TrendWords& words_for(Growth growth) {
  return *std::find_if(std::begin(kTrends), std::end(kTrends),
                       [growth](const TrendWords& words) { return words.growth == growth; });
}

LeakHistories read_histories(const LeaksOptions& options, const replay::Analysis& analysis,
                             const findings::CallSites& sites) {
  const model::Profile& profile = analysis.profile();
  // By node: its position in the histories.
  std::vector<std::uint32_t> stack_of_node(profile.nodes.size(), model::kNoIndex);
  std::uint32_t stacks = 0;
  for (std::size_t node = 0; node < profile.nodes.size(); ++node)
    if (profile.nodes[node].costs.leaked_blocks != 0) stack_of_node[node] = stacks++;
  // A call site's live bytes are those of all its stacks, also of the ones that leak nothing. If it has only one, its
  // trend is that of the stack.
  std::vector<std::uint32_t> site_of_node = sites.site_of_node();
  std::vector<std::uint32_t> stacks_of_site(sites.sites().size());
  for (const std::uint32_t site : site_of_node)
    if (site != model::kNoIndex) ++stacks_of_site[site];
  std::vector<std::uint32_t> only_node(stacks_of_site.size(), model::kNoIndex);
  for (std::uint32_t node = 0; node < site_of_node.size(); ++node) {
    std::uint32_t& site = site_of_node[node];
    if (site == model::kNoIndex || stacks_of_site[site] != 1 || stack_of_node[node] == model::kNoIndex) continue;
    only_node[std::exchange(site, model::kNoIndex)] = node;
  }

  const model::LeakSteps steps = analysis.leak_steps();
  model::LeakHistory by_stack(stacks, steps, analysis.clock());
  model::LeakHistory by_site(stacks_of_site.size(), steps, analysis.clock());
  ProgressLine progress("Reading " + options.trace.trace + " again");
  analysis.follow_leaks(by_stack, stack_of_node, by_site, site_of_node,
                        [&](const replay::Done& done) { progress.show(done); });
  by_stack.finish();
  by_site.finish();
  for (std::uint32_t site = 0; site < only_node.size(); ++site)
    if (only_node[site] != model::kNoIndex) by_site.set(site, by_stack.of(stack_of_node[only_node[site]]));
  return {std::move(by_stack), std::move(stack_of_node), std::move(by_site)};
}

void sort_stacks(const model::Profile& profile, std::vector<RankedStack>& stacks, Order order,
                 const LeakHistories* histories) {
  const auto key = [&](const RankedStack& stack) -> double {
    switch (order) {
      case Order::kBytes: break;
      case Order::kBlocks: return static_cast<double>(stack.blocks);
      case Order::kAge:
        return histories == nullptr ? 0 : -static_cast<double>(histories->of_stack(stack.node).first_ns);
      case Order::kGrowth:
        if (histories != nullptr)
          return findings::leak_weight(stack.bytes, findings::survival(profile.nodes[stack.node].costs),
                                       &histories->of_stack(stack.node));
        break;
    }
    return static_cast<double>(stack.bytes);
  };
  std::stable_sort(stacks.begin(), stacks.end(),
                   [&](const RankedStack& a, const RankedStack& b) { return key(a) > key(b); });
}

struct GrowthSums {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t stacks = 0;
};

using SumsByGrowth = std::map<Growth, GrowthSums>;

SumsByGrowth sums_by_growth(const std::vector<RankedStack>& stacks, const LeakHistories& histories) {
  SumsByGrowth sums;
  for (const RankedStack& stack : stacks) {
    GrowthSums& sum = sums[histories.of_stack(stack.node).growth];
    sum.bytes += stack.bytes;
    sum.blocks += stack.blocks;
    ++sum.stacks;
  }
  return sums;
}

void add_trend(Json& entry, const LeakTrend& trend) {
  entry["trend"] = words_for(trend.growth).json;
  entry["growth"] = words_for(trend.growth).json_old;  // old names, for one release
  entry["released_blocks"] = trend.freed_blocks;
  add_trend_figures(entry, trend);
}

/// The call sites in the order of their rank.
std::vector<LeakingSite> rank_sites(const findings::CallSites& sites, Order order, const LeakHistories* histories) {
  std::vector<LeakingSite> ranked;
  for (std::uint32_t i = 0; i < sites.sites().size(); ++i)
    ranked.push_back({&sites.sites()[i], histories == nullptr ? nullptr : &histories->of_site(i)});
  const auto key = [order](const LeakingSite& leaking) -> double {
    const findings::CallSite& site = *leaking.site;
    const auto bytes = static_cast<double>(site.held.bytes);
    switch (order) {
      case Order::kBytes: return bytes;
      case Order::kBlocks: return static_cast<double>(site.held.blocks);
      case Order::kAge: return leaking.trend == nullptr ? bytes : -static_cast<double>(leaking.trend->first_ns);
      case Order::kGrowth: break;
    }
    return findings::leak_weight(site, leaking.trend);
  };
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](const LeakingSite& a, const LeakingSite& b) { return key(a) > key(b); });
  return ranked;
}

/// By node: its part of the weight that its call site has in the ranking. Blocks of 0 bytes weigh nothing.
std::vector<double> weights_of_nodes(const model::Profile& profile, const findings::HeldByNode& held,
                                     const std::vector<LeakingSite>& sites) {
  std::vector<double> weights(profile.nodes.size());
  for (const LeakingSite& leaking : sites) {
    const findings::CallSite& site = *leaking.site;
    if (site.held.bytes == 0) continue;
    const double factor = findings::leak_weight(site, leaking.trend) / static_cast<double>(site.held.bytes);
    for (const std::uint32_t node : site.nodes) weights[node] = static_cast<double>(held[node].bytes) * factor;
  }
  return weights;
}

/// The largest stack of each site in the order of the sites, then the others as they are.
void put_sites_first(std::vector<RankedStack>& stacks, const std::vector<LeakingSite>& sites) {
  std::unordered_map<std::uint32_t, std::size_t> rank;  // by node
  for (std::size_t i = 0; i < sites.size(); ++i) rank[sites[i].site->nodes.front()] = i;
  const auto key = [&](const RankedStack& stack) {
    const auto at = rank.find(stack.node);
    return at == rank.end() ? sites.size() : at->second;
  };
  std::stable_sort(stacks.begin(), stacks.end(),
                   [&](const RankedStack& a, const RankedStack& b) { return key(a) < key(b); });
}

void add_trends(Json& json, SumsByGrowth& sums) {
  Json trends = Json::object();
  Json growth = Json::object();
  for (const TrendWords& words : kTrends) {
    const GrowthSums& sum = sums[words.growth];
    trends[words.json] = {{"bytes", sum.bytes}, {"blocks", sum.blocks}, {"stacks", sum.stacks}};
    growth[words.json_old] = trends[words.json];
  }
  json["trends"] = std::move(trends);
  json["growth"] = std::move(growth);  // old name, for one release
}

void add_classes(Json& json, const std::vector<LeakingSite>& sites) {
  Json& classes = json["site_trends"] = Json::object();
  for (const LeakClass one : kLeakClasses) {
    const ClassSums sums = sums_of(sites, one);
    classes[json_key_of(one)] = {{"bytes", sums.held.bytes}, {"blocks", sums.held.blocks}, {"sites", sums.sites}};
  }
}

void add_findings(Json& json, const LeaksOptions& options, const model::Profile& profile, const Findings& findings,
                  const std::vector<LeakingSite>& sites, const findings::HeldByNode& held,
                  const std::optional<findings::CommonPath>& path) {
  const findings::Held total{profile.totals.leaked_bytes, profile.totals.leaked_blocks};
  Json& list = json["sites"] = Json::array();
  for (const LeakingSite& one : sites) {
    if (options.top != 0 && list.size() == options.top) break;
    Json entry = site_json(findings, *one.site, total, false);
    if (one.trend != nullptr) {
      entry["trend"] = words_for(one.trend->growth).json;
      add_trend_figures(entry, *one.trend);
    }
    list.push_back(std::move(entry));
  }
  json["all_sites"] = sites.size();
  json["keepers"] =
      keepers_json(findings, findings::find_keepers(findings.frames(), findings.helpers(), held), total);
  json["common_path"] = common_path_json(findings, path, total);
  json["helpers"] = helpers_json(findings);
}

/// To each of the call sites in the document: what the programs of several recordings have of it.
void add_programs(Json& json, const MergedRecordings& merged, const std::vector<LeakingSite>& sites) {
  for (std::size_t i = 0; i < json["sites"].size(); ++i) {
    Json& programs = json["sites"][i]["programs"] = Json::array();
    for (const MergedRecordings::Program& program : merged.programs) {
      findings::Held held;
      for (const std::uint32_t node : sites[i].site->nodes)
        if (const auto at = program.costs.find(node); at != program.costs.end())
          held += {at->second.leaked_bytes, at->second.leaked_blocks};
      if (held.blocks != 0)
        programs.push_back({{"program", program.name}, {"bytes", held.bytes}, {"blocks", held.blocks}});
    }
  }
}

/// `analysis` is null for several recordings: call sites have no trends then, since processes begin and end at
/// different times.
void print_leaks(const LeaksOptions& options, const model::Profile& profile, const replay::Analysis* analysis,
                 const MergedRecordings* merged) {
  Suppressions suppressions = read_suppressions(options.suppressions);
  std::vector<RankedStack> stacks = rank_stacks(profile, Cost::kLeaked);
  // Suppressions match names, and helpers are found among all stacks: all are looked up.
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_of_findings(profile));
  const bool any = !stacks.empty();
  const Suppressed suppressed = suppress(suppressions, names, stacks);
  report_unmatched_rules(options.trace.trace, profile, suppressed);
  findings::HeldByNode held(profile.nodes.size());
  for (const RankedStack& stack : stacks) held[stack.node] = {stack.bytes, stack.blocks};
  const Findings findings(profile, names, options.call_sites);
  const findings::CallSites sites(findings.frames(), findings.helpers(), held);

  // Mappings have no history: they are split and merged while they live.
  std::optional<LeakHistories> histories;
  SumsByGrowth sums;
  if (options.history && analysis != nullptr && profile.kind == model::Kind::kHeap && any) {
    histories.emplace(read_histories(options, *analysis, sites));
    sums = sums_by_growth(stacks, *histories);
  }
  const LeakHistories* const known = histories ? &*histories : nullptr;
  const std::vector<LeakingSite> ranked = rank_sites(sites, options.order, known);
  std::optional<findings::CommonPath> path;
  if (!ranked.empty())
    path = findings::find_common_path(findings.frames(), findings.helpers(), held,
                                      weights_of_nodes(profile, held, ranked), ranked.front().site->frame);
  if (!options.trace.json) {
    const LeaksAnswer answer{profile, names,      findings,
                             held,    ranked,     findings::find_keepers(findings.frames(), findings.helpers(), held),
                             path,    suppressed, known};
    return write_output(options.trace.output, leaks_text(options, answer));
  }
  sort_stacks(profile, stacks, options.order, known);
  if (options.order == Order::kGrowth) put_sites_first(stacks, ranked);
  if (options.top != 0 && stacks.size() > options.top) stacks.resize(options.top);

  Json json = report_json(profile, Cost::kLeaked, stacks, names);
  add_suppressed(json, suppressed);
  if (known != nullptr) {
    add_trends(json, sums);
    add_classes(json, ranked);
    for (std::size_t i = 0; i < stacks.size(); ++i) add_trend(json["top"][i], known->of_stack(stacks[i].node));
  }
  add_findings(json, options, profile, findings, ranked, held, path);
  if (merged != nullptr) add_programs(json, *merged, ranked);
  write_report(options.trace.output, std::move(json), stacks, names, options.shared_frames);
}

}  // namespace

int run_leaks(const LeaksOptions& options) {
  TraceOptions trace = for_costs(options.trace);
  if (!trace.traces.empty())
    return run_on_recordings(trace, [&](const RecordingSet&, const MergedRecordings& merged) {
      print_leaks(options, merged.profile, nullptr, &merged);
    });
  trace.selection.with_timeline = options.history;  // the trends need the times of the allocations
  return run_on_trace(
      trace, [&](const replay::Analysis& analysis) { print_leaks(options, analysis.profile(), &analysis, nullptr); });
}

}  // namespace heapprof::cli
