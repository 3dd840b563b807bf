// What the commands have in common that ask something of every single block: a second reading of the trace, figures
// by stack and by call site, and the refusal of --kind mmap, since mappings are cut and joined while they live.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "analyzer/cli/text/call_sites.h"
#include "analyzer/cli/commands/trace_command.h"

namespace heapprof::cli {

/// run_on_trace() for a question about blocks of the heap.
int ask_about_blocks(const TraceOptions& options, const std::function<void(const replay::Analysis&)>& print);

/// Hands out all events that count, with a progress line; then the blocks never released.
template <typename Event>
void read_again(const TraceOptions& options, const replay::Analysis& analysis, Event&& event,
                const std::function<void(const replay::LiveBlock&)>& survivors = {}) {
  ProgressLine progress("Reading " + options.trace + " again");
  analysis.for_each_event(
      [&](std::span<const replay::ProfileEvent> events) {
        for (const replay::ProfileEvent& one : events) event(one);
      },
      [&](double share, std::uint64_t events) { progress.show(share, events); }, {.visit_leaked = survivors});
}

inline std::uint64_t lifetime_of(const replay::ProfileEvent& release) noexcept {
  return release.time_ns - std::min(release.allocated_ns, release.time_ns);
}

/// A call site with the sum of its stacks' figures.
template <typename Costs>
struct SiteCosts {
  Frame frame;
  Costs costs;
  std::uint32_t node = 0;  ///< its costliest stack
};

/// Stacks beyond these, the least costly ones, are not looked up by name.
inline constexpr std::size_t kMostStacksBySite = 20'000;

/// The call sites with a cost, costliest first. `rank_of(costs)` is what a set of figures weighs; 0 is left out.
template <typename Costs, typename RankOf>
std::vector<SiteCosts<Costs>> costs_by_site(const model::Profile& profile, StackNames& names,
                                            const std::vector<Costs>& costs, RankOf&& rank_of) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    if (rank_of(costs[node]) != 0) nodes.push_back(node);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return rank_of(costs[a]) > rank_of(costs[b]); });
  if (nodes.size() > kMostStacksBySite) nodes.resize(kMostStacksBySite);
  names.resolve(nodes);
  std::vector<SiteCosts<Costs>> sites;
  for (const SiteGroup& group : group_by_site(names, nodes)) {
    SiteCosts<Costs> site{group.frame, {}, group.nodes.front()};
    for (const std::uint32_t node : group.nodes) site.costs += costs[node];
    sites.push_back(std::move(site));
  }
  std::stable_sort(sites.begin(), sites.end(),
                   [&](const auto& a, const auto& b) { return rank_of(a.costs) > rank_of(b.costs); });
  return sites;
}

}  // namespace heapprof::cli
