// heapprof leaks: blocks that were live at the end, by the call sites and stacks that allocated them.
//
// Which stacks leak is known only after the trace was replayed. A second replay follows the live bytes of those
// stacks over time, with a few counters per stack (model/leak_history.h).
#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/leak_classes.h"
#include "analyzer/cli/commands/leaks_text.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/commands/suppressed_leaks.h"
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

/// What the second replay finds.
struct Histories {
  model::LeakHistory by_stack;
  model::LeakHistory by_site;
};

/// The second replay. Idle time before the first allocation and after the last one is left out: it would hide growth.
Histories read_histories(const LeaksOptions& options, const replay::Analysis& analysis,
                         const findings::CallSites& sites) {
  const model::Profile& profile = analysis.profile();
  const std::uint64_t begin_ns = profile.begin_ns();
  const std::uint64_t end_ns = profile.end_ns();
  std::uint64_t from_ns = begin_ns;
  std::uint64_t to_ns = end_ns;
  const std::vector<model::Timeline::Bucket>& buckets = profile.timeline.buckets;
  const auto busy = [](const model::Timeline::Bucket& bucket) { return bucket.allocations != 0; };
  const auto first = std::find_if(buckets.begin(), buckets.end(), busy);
  const auto last = std::find_if(buckets.rbegin(), buckets.rend(), busy);
  if (first != buckets.end()) from_ns = std::max(from_ns, first->start_ns);
  if (last != buckets.rend() && last != buckets.rbegin()) to_ns = std::min(to_ns, std::prev(last)->start_ns);
  Histories histories{{profile, from_ns, to_ns}, {sites.sites().size(), from_ns, to_ns}};
  const model::LoadTimes load = model::load_times(profile.timeline);
  histories.by_stack.set_load(load);
  histories.by_site.set_load(load);
  // A call site's live bytes are those of all its stacks, also of the ones that leak nothing.
  const std::vector<std::uint32_t>& site_of = sites.site_of_node();
  std::vector<std::uint8_t> followed;
  followed.reserve(profile.nodes.size());
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    followed.push_back(profile.nodes[node].costs.leaked_blocks != 0 || site_of[node] != model::kNoIndex);
  ProgressLine progress("Reading " + options.trace.trace + " again");
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& event : events) {
          const std::uint32_t site = site_of[event.node];
          if (event.kind == replay::ResolvedKind::kAllocation) {
            histories.by_stack.allocated(event.node, event.size, event.time_ns);
            if (site != model::kNoIndex) histories.by_site.allocated(site, event.size, event.time_ns);
          } else if (event.kind == replay::ResolvedKind::kFree) {
            histories.by_stack.freed(event.node, event.size, event.time_ns, event.allocated_ns, event.in_realloc);
            if (site != model::kNoIndex)
              histories.by_site.freed(site, event.size, event.time_ns, event.allocated_ns, event.in_realloc);
          }
        }
      },
      [&](double share, std::uint64_t events) { progress.show(share, events); },
      {.nodes = &followed, .visit_leaked = [&](const replay::LiveBlock& block) {
         histories.by_stack.left(block.node, block.size, block.time_ns);
         if (site_of[block.node] != model::kNoIndex)
           histories.by_site.left(site_of[block.node], block.size, block.time_ns);
       }});
  histories.by_stack.finish();
  histories.by_site.finish();
  return histories;
}

void sort_stacks(const model::Profile& profile, std::vector<RankedStack>& stacks, Order order,
                 const model::LeakHistory* history) {
  const auto key = [&](const RankedStack& stack) -> double {
    switch (order) {
      case Order::kBytes: break;
      case Order::kBlocks: return static_cast<double>(stack.blocks);
      case Order::kAge: return history == nullptr ? 0 : -static_cast<double>(history->of(stack.node).first_ns);
      case Order::kGrowth:
        if (history != nullptr)
          return findings::leak_weight(stack.bytes, findings::survival(profile.nodes[stack.node].costs),
                                       &history->of(stack.node));
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

SumsByGrowth sums_by_growth(const std::vector<RankedStack>& stacks, const model::LeakHistory& history) {
  SumsByGrowth sums;
  for (const RankedStack& stack : stacks) {
    GrowthSums& sum = sums[history.of(stack.node).growth];
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
std::vector<LeakingSite> rank_sites(const findings::CallSites& sites, Order order,
                                    const model::LeakHistory* history) {
  std::vector<LeakingSite> ranked;
  for (std::uint32_t i = 0; i < sites.sites().size(); ++i)
    ranked.push_back({&sites.sites()[i], history == nullptr ? nullptr : &history->of(i)});
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

/// By node: its part of the weight that its call site has in the ranking.
std::vector<double> weights_of_nodes(const model::Profile& profile, const findings::HeldByNode& held,
                                     const std::vector<LeakingSite>& sites) {
  std::vector<double> weights(profile.nodes.size());
  for (const LeakingSite& leaking : sites) {
    const findings::CallSite& site = *leaking.site;
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

void print_leaks(const LeaksOptions& options, const replay::Analysis& analysis) {
  Suppressions suppressions = read_suppressions(options.suppressions);
  const model::Profile& profile = analysis.profile();
  std::vector<RankedStack> stacks = rank_stacks(profile, Cost::kLeaked);
  // Suppressions match names, and helpers are found among all stacks: all are looked up.
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_with_costs(profile));
  const bool any = !stacks.empty();
  const Suppressed suppressed = suppress(suppressions, names, stacks);
  report_vain_rules(options.trace.trace, profile, suppressed);
  findings::HeldByNode held(profile.nodes.size());
  for (const RankedStack& stack : stacks) held[stack.node] = {stack.bytes, stack.blocks};
  const Findings findings(profile, names, options.call_sites);
  const findings::CallSites sites(findings.frames(), findings.helpers(), held);

  // Mappings have no history: they are split and merged while they live.
  std::optional<Histories> histories;
  SumsByGrowth sums;
  if (options.history && profile.kind == model::Kind::kHeap && any) {
    histories = read_histories(options, analysis, sites);
    sums = sums_by_growth(stacks, histories->by_stack);
  }
  const model::LeakHistory* const known = histories ? &histories->by_stack : nullptr;
  const std::vector<LeakingSite> ranked = rank_sites(sites, options.order, histories ? &histories->by_site : nullptr);
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
    for (std::size_t i = 0; i < stacks.size(); ++i) add_trend(json["top"][i], known->of(stacks[i].node));
  }
  add_findings(json, options, profile, findings, ranked, held, path);
  write_report(options.trace.output, std::move(json), stacks, names, options.shared_frames);
}

}  // namespace

int run_leaks(const LeaksOptions& options) {
  TraceOptions trace = for_costs(options.trace);
  trace.selection.with_timeline = options.history;  // the trends need the times of the allocations
  return run_on_trace(trace, [&](const replay::Analysis& analysis) { print_leaks(options, analysis); });
}

}  // namespace heapprof::cli
