// For the commands that need every event and not only sums (churn, frees, histogram, reallocs, threads): a second
// replay of the trace, and figures by call site. They analyze heap blocks only: mappings are split and merged while
// they live.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/shared/standing_answers.h"
#include "analyzer/cli/text/call_sites.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/findings/origin.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {

/// Calls event(const replay::ProfileEvent&) for each selected event, with a progress line.
template <typename Event>
void replay_events(const TraceOptions& options, const replay::Analysis& analysis, Event&& event) {
  ProgressLine progress("Reading " + options.trace + " again");
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& one : events) event(one);
      },
      [&](const replay::Done& done) { progress.show(done); });
}

/// As run_on_trace(): before `print`, calls sums.add(const replay::ProfileEvent&) for each selected event, and
/// sums.add_left(const replay::LiveBlock&), if it has that, for each block that was not freed. The events come from a
/// second replay. While a program is followed, the sums are those of the process that follows it
/// (standing_answers.h); then their nodes are dense indexes, which by_node() translates.
template <typename Sums>
int run_with_events(const TraceOptions& options, Sums sums,
                    const std::function<void(const replay::Analysis&, Sums&)>& print) {
  Sums* const kept = followed_sums<Sums>();
  if constexpr (requires { kept->has_options_of(sums); })
    if (kept != nullptr && !kept->has_options_of(sums)) {
      print_message(options.trace + ": these options need another pass");
      return 1;
    }
  Sums& used = kept != nullptr ? *kept : sums;
  replay::LeakVisitor visit_leaked;
  if constexpr (requires(const replay::LiveBlock& block) { used.add_left(block); })
    visit_leaked = [&](const replay::LiveBlock& block) { used.add_left(block); };
  return run_on_trace(
      options,
      [&](const replay::Analysis& analysis) {
        if (!analysis.has_followed())
          replay_events(options, analysis, [&](const replay::ProfileEvent& event) { used.add(event); });
        print(analysis, used);
      },
      visit_leaked);
}

/// The element at `index`, which is appended if it does not exist.
template <typename Element>
Element& grown(std::vector<Element>& list, std::size_t index) {
  if (index >= list.size()) [[unlikely]]
    list.resize(index + 1);
  return list[index];
}

/// What was summed by the nodes of the events of run_with_events(), by node of the profile.
template <typename Costs>
std::vector<Costs> by_node(const replay::Analysis& analysis, std::vector<Costs> costs) {
  if (analysis.has_followed()) return analysis.by_node(costs);
  costs.resize(analysis.profile().nodes.size());
  return costs;
}

/// The lifetime of the freed block. Precondition: `event` is a free.
inline std::uint64_t lifetime_of(const replay::ProfileEvent& event) noexcept {
  return event.time_ns - std::min(event.allocated_ns, event.time_ns);
}

/// A call site and the sum of the figures of its stacks.
template <typename Costs>
struct SiteCosts {
  CallSite site;  ///< its stack is the one with the highest rank
  Costs costs;
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
  std::vector<std::uint32_t> named = nodes_of_findings(profile);
  named.insert(named.end(), nodes.begin(), nodes.end());
  names.resolve(named);
  const CallSites grouped = group_by_site(Findings(profile, names, options), nodes);
  std::vector<SiteCosts<Costs>> sites;
  for (const CallSite& site : grouped.sites) sites.push_back({site, {}});
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

/// Keeps the first `top` call sites (0: all). Returns " (10 of 74)" for a heading; empty: these are all.
template <typename Costs>
std::string keep_first_sites(std::vector<SiteCosts<Costs>>& sites, std::size_t top) {
  const std::size_t all = sites.size();
  if (top == 0 || all <= top) return {};
  sites.resize(top);
  return " (" + render::exact_number(top) + " of " + render::exact_number(all) + ")";
}

/// A column with one of the figures of call sites, in one unit.
template <typename Costs, typename BytesOf>
render::ByteColumn sizes_of(const std::vector<SiteCosts<Costs>>& sites, BytesOf&& bytes_of) {
  std::uint64_t largest = 0;
  for (const SiteCosts<Costs>& site : sites) largest = std::max<std::uint64_t>(largest, bytes_of(site.costs));
  return render::ByteColumn(largest);
}

/// The array `sites` of a JSON document: what `costs_json` makes of the costs of each call site, and its names.
template <typename Costs, typename CostsJson>
Json sites_json(const StackNames& names, const std::vector<SiteCosts<Costs>>& sites, CostsJson&& costs_json) {
  Json list = Json::array();
  for (const auto& [site, costs] : sites) {
    Json entry = costs_json(costs);
    entry["site"] = frame_json(site.frame);
    entry["origin"] = findings::name_of(site.origin);
    entry["stack"] = stack_json(names, site.node);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace heapprof::cli
