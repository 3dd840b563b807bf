// heapprof report: totals, and the call sites and stacks that cost most.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/where_memory_went/report_rows.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/findings_json.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/small_rows.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/common_path.h"
#include "analyzer/findings/keepers.h"
#include "analyzer/findings/rising.h"
#include "analyzer/render/units.h"
#include "analyzer/views/rows.h"

namespace heapprof::cli {
namespace {

/// Live bytes of call sites at the end of each bucket of the timeline, from a second replay.
class SiteHistory {
 public:
  /// Follows the sites in `rows`, and those that hold at least kMinShare of `total`.
  SiteHistory(const ReportOptions& options, const replay::Analysis& analysis, const findings::CallSites& sites,
              const std::vector<SiteRow>& rows, const findings::Held& total)
      : sites_(sites), group_of_site_(sites.sites().size(), model::kNoIndex) {
    std::uint32_t groups = 0;
    const auto follow = [&](const findings::CallSite& site) {
      std::uint32_t& group = group_of_site_[number_of(site)];
      if (group == model::kNoIndex) group = groups++;
    };
    for (const SiteRow& row : rows) follow(*row.site);
    for (const findings::CallSite& site : sites.sites())
      if (static_cast<double>(site.held.bytes) >= kMinShare * static_cast<double>(total.bytes)) follow(site);
    std::vector<std::uint32_t> group_of_node;
    for (const std::uint32_t site : sites.site_of_node())
      group_of_node.push_back(site == model::kNoIndex ? model::kNoIndex : group_of_site_[site]);
    ProgressLine progress("Reading " + options.trace.trace + " again");
    live_ = analysis.live_by_group(
        group_of_node, groups, [&](const replay::Done& done) { progress.show(done); }, replay::InBucket::kLast,
        &timeline_);
  }

  /// The highest live bytes in each of kParts parts of the time. Precondition: the site is followed.
  std::vector<std::uint64_t> over_time(const findings::CallSite& site) const {
    constexpr std::size_t kParts = 9;
    const std::vector<std::uint64_t>& live = live_[group_of_site_[number_of(site)]];
    std::vector<std::uint64_t> highest(kParts, 0);
    for (std::size_t i = 0; i < live.size(); ++i) {
      std::uint64_t& one = highest[i * kParts / live.size()];
      one = std::max(one, live[i]);
    }
    return highest;
  }

  struct Rising {
    std::vector<double> bytes;      ///< by node: held by stacks of the followed sites that rose; else 0
    findings::FrameRef first_site;  ///< the site of these that holds most
  };
  /// The followed sites whose live bytes rose until `time_ns`.
  Rising rising_until(std::uint64_t time_ns, const findings::HeldByNode& held) const {
    constexpr std::uint64_t kMinAllocations = 8;
    std::size_t begin = 0;
    while (begin < timeline_.buckets.size() && timeline_.buckets[begin].allocations == 0) ++begin;
    std::size_t end = begin;
    while (end < timeline_.buckets.size() && timeline_.buckets[end].start_ns <= time_ns) ++end;
    Rising rising;
    rising.bytes.resize(held.size());
    for (const findings::CallSite& site : sites_.sites()) {
      const std::uint32_t group = group_of_site_[number_of(site)];
      if (group == model::kNoIndex || site.costs.allocations < kMinAllocations ||
          !findings::is_rising(std::span(live_[group]).subspan(begin, end - begin)))
        continue;
      if (!rising.first_site.exists()) rising.first_site = site.frame;
      for (const std::uint32_t node : site.nodes) rising.bytes[node] = static_cast<double>(held[node].bytes);
    }
    return rising;
  }

 private:
  static constexpr double kMinShare = 0.005;

  std::size_t number_of(const findings::CallSite& site) const {
    return static_cast<std::size_t>(&site - sites_.sites().data());
  }

  const findings::CallSites& sites_;
  model::Timeline timeline_;
  std::vector<std::uint32_t> group_of_site_;
  std::vector<std::vector<std::uint64_t>> live_;
};

/// The call sites, those that cost most first.
std::vector<SiteRow> rank_sites(const findings::CallSites& sites, Cost cost) {
  std::vector<SiteRow> ranked;
  for (const findings::CallSite& site : sites.sites()) ranked.push_back({&site});
  if (ranks_by_blocks(cost))
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const SiteRow& a, const SiteRow& b) { return a.site->held.blocks > b.site->held.blocks; });
  return ranked;
}

/// The path that most of the cost has in common.
std::optional<findings::CommonPath> path_of(const Findings& findings, const findings::HeldByNode& held,
                                            const SiteRanking& ranking) {
  if (ranking.rows.empty()) return std::nullopt;
  std::vector<double> weights;
  weights.reserve(held.size());
  for (const findings::Held& one : held)
    weights.push_back(static_cast<double>(ranks_by_blocks(ranking.cost) ? one.blocks : one.bytes));
  return findings::find_common_path(findings.frames(), findings.helpers(), held, weights,
                                    ranking.rows.front().site->frame);
}

/// The path that most of the memory has in common whose call sites rose until the peak.
std::optional<findings::CommonPath> rising_path(const Findings& findings, const findings::HeldByNode& held,
                                                const SiteHistory& history, const model::Profile& profile) {
  const SiteHistory::Rising rising = history.rising_until(profile.peak_time_ns, held);
  findings::HeldByNode held_by_rising(held.size());
  for (std::size_t node = 0; node < held.size(); ++node)
    if (rising.bytes[node] > 0) held_by_rising[node] = held[node];
  return findings::find_common_path(findings.frames(), findings.helpers(), held_by_rising, rising.bytes,
                                    rising.first_site);
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
  json["common_path"] = common_path_json(findings, path_of(findings, held, ranking), ranking.total);
  json["helpers"] = helpers_json(findings);
  write_report(options.trace.output, std::move(json), stacks, names, options.shared_frames);
}

void print_text(const ReportOptions& options, const model::Profile& profile, const StackNames& names,
                const Findings& findings, const findings::HeldByNode& held, const SiteRanking& ranking,
                const SiteHistory* history) {
  AnswerText text(profile, answer_style(options.trace.output, options.frames), names, findings);
  text.head();
  if (const auto path = path_of(findings, held, ranking)) {
    text.line();
    text.common_path("Look first at", options.cost, *path, ranking.total);
    if (options.cost == Cost::kPeak && history != nullptr)
      if (const auto rising = rising_path(findings, held, *history, profile);
          rising && rising->functions.back().frame != path->functions.back().frame)
        text.common_path("Rose until the peak:", options.cost, *rising, ranking.total);
  }
  text.call_sites(ranking);
  if (is_of_live_blocks(options.cost))
    text.keepers(findings::find_keepers(findings.frames(), findings.helpers(), held), ranking.total);
  text.stacks(ranking, held, options.stacks).helpers(ranking);
  if (!ranking.rows.empty()) text.next_commands(ranking, options.stacks, selection_words(options.trace));
  text.notes(names.warnings());
  write_output(options.trace.output, text.text());
}

void print_report(const ReportOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_of_findings(profile));
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
  for (const findings::CallSite& site : sites.sites()) {
    ranking.all_stacks += site.nodes.size();
    ranking.all_held += site.held;
  }
  ranking.rows = rank_sites(sites, options.cost);
  if (options.top != 0 && ranking.rows.size() > options.top) ranking.rows.resize(options.top);
  if (options.trace.json) return print_json(options, profile, names, findings, held, ranking);

  if (options.top != 0) leave_out_small_rows(ranking);
  std::optional<SiteHistory> history;
  // Mappings have no history: they are split and merged while they live.
  if (is_of_live_blocks(options.cost) && profile.kind == model::Kind::kHeap && !ranking.rows.empty()) {
    if (options.history.value_or(profile.events() <= kMaxEventsWithHistory)) {
      history.emplace(options, analysis, sites, ranking.rows, ranking.total);
      for (SiteRow& row : ranking.rows) row.over_time = history->over_time(*row.site);
    } else {
      ranking.lacks_history = !options.history.has_value();
    }
  }
  print_text(options, profile, names, findings, held, ranking, history ? &*history : nullptr);
}

}  // namespace

int run_report(const ReportOptions& options) {
  if (!options.trace.traces.empty())
    return run_on_recordings(for_costs(options.trace), [&](const RecordingSet&, const MergedRecordings& merged) {
      print_rows_of_processes(options, merged);
    });
  TraceOptions trace = for_costs(options.trace);
  trace.selection.costs_by_thread = options.rows.by == views::By::kThread;
  return run_on_trace(trace, [&](const replay::Analysis& analysis) {
    if (options.rows.by) print_report_rows(options, analysis);
    else print_report(options, analysis);
  });
}

}  // namespace heapprof::cli
