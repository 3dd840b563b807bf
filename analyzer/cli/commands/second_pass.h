// For the commands that need every event and not only sums (churn, frees, histogram, reallocs, threads): a second
// replay of the trace, and figures by call site. They analyze heap blocks only: mappings are split and merged while
// they live.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/text/call_sites.h"

namespace heapprof::cli {

/// Calls event(const replay::ProfileEvent&) for each selected event, with a progress line, and then `survivors` for
/// each block that was not freed.
template <typename Event>
void replay_events(const TraceOptions& options, const replay::Analysis& analysis, Event&& event,
                   const std::function<void(const replay::LiveBlock&)>& survivors = {}) {
  ProgressLine progress("Reading " + options.trace + " again");
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& one : events) event(one);
      },
      [&](double share, std::uint64_t events) { progress.show(share, events); }, {.visit_leaked = survivors});
}

/// The lifetime of the freed block. Precondition: `event` is a free.
inline std::uint64_t lifetime_of(const replay::ProfileEvent& event) noexcept {
  return event.time_ns - std::min(event.allocated_ns, event.time_ns);
}

/// A call site and the sum of the figures of its stacks.
template <typename Costs>
struct SiteCosts {
  Frame frame;
  Costs costs;
  std::uint32_t node = 0;  ///< its stack with the highest rank
};

/// The call sites of the stacks for which `counts(costs)` is true, each with the sum over all these stacks, highest
/// rank first. Sites whose rank is 0 are left out.
template <typename Costs, typename RankOf, typename Counts>
std::vector<SiteCosts<Costs>> costs_by_site(const model::Profile& profile, StackNames& names,
                                            const CallSiteOptions& options, const std::vector<Costs>& costs,
                                            RankOf&& rank_of, Counts&& counts) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    if (counts(costs[node])) nodes.push_back(node);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return rank_of(costs[a]) > rank_of(costs[b]); });
  std::vector<std::uint32_t> named = nodes_with_costs(profile);
  named.insert(named.end(), nodes.begin(), nodes.end());
  names.resolve(named);
  const CallSites grouped = group_by_site(Findings(profile, names, options), nodes);
  std::vector<SiteCosts<Costs>> sites;
  for (const CallSite& site : grouped.sites) sites.push_back({site.frame, {}, site.node});
  for (const std::uint32_t node : nodes) sites[grouped.site_of_node[node]].costs += costs[node];
  std::erase_if(sites, [&](const auto& site) { return rank_of(site.costs) == 0; });
  std::stable_sort(sites.begin(), sites.end(),
                   [&](const auto& a, const auto& b) { return rank_of(a.costs) > rank_of(b.costs); });
  return sites;
}

/// The same for costs that are all 0 in the stacks whose rank is 0.
template <typename Costs, typename RankOf>
std::vector<SiteCosts<Costs>> costs_by_site(const model::Profile& profile, StackNames& names,
                                            const CallSiteOptions& options, const std::vector<Costs>& costs,
                                            RankOf&& rank_of) {
  return costs_by_site(profile, names, options, costs, rank_of,
                       [&](const Costs& of_stack) { return rank_of(of_stack) != 0; });
}

}  // namespace heapprof::cli
