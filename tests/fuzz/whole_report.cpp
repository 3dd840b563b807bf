#include "tests/fuzz/whole_report.h"

#include <numeric>
#include <vector>

#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/info_text.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/keepers.h"
#include "analyzer/model/leak_history.h"
#include "analyzer/pins/pin_groups.h"
#include "analyzer/pins/pinned_tables.h"
#include "analyzer/trace/merged_reader.h"

namespace heapprof::fuzz {

namespace {

/// The first screen of a report, and its stacks.
std::size_t print_answers(const model::Profile& profile, cli::Cost cost, const cli::StackNames& names,
                          const std::vector<cli::RankedStack>& stacks) {
  const cli::Findings findings(profile, names, {});
  findings::HeldByNode held(profile.nodes.size());
  cli::SiteRanking ranking;
  ranking.cost = cost;
  for (const cli::RankedStack& stack : stacks) {
    held[stack.node] = {stack.bytes, stack.blocks};
    ranking.total += held[stack.node];
  }
  const findings::CallSites sites(findings.frames(), findings.helpers(), held);
  for (const findings::CallSite& site : sites.sites()) ranking.rows.push_back({&site});
  ranking.all_sites = sites.sites().size();
  ranking.all_stacks = stacks.size();
  cli::AnswerText text(profile, {}, names, findings);
  text.head();
  text.call_sites(ranking);
  text.keepers(findings::find_keepers(findings.frames(), findings.helpers(), held), ranking.total);
  text.stacks(ranking, held, 0).helpers(ranking);
  return text.notes({}).text().size();
}

std::size_t print_all(const model::Profile& profile) {
  std::size_t bytes = 0;
  for (const cli::Cost cost : {cli::Cost::kPeak, cli::Cost::kLeaked}) {
    const auto stacks = cli::rank_stacks(profile, cost);
    symbols::Options options;
    options.symbols = false;
    cli::StackNames names(profile, options);
    names.resolve(cli::nodes_with_costs(profile));
    bytes += print_answers(profile, cost, names, stacks);
    bytes += cli::dump(cli::report_json(profile, cost, stacks, names)).size();
  }
  cli::ReportText info(profile, {});
  cli::append_info(info, profile);
  bytes += info.notes({}).text().size();
  return bytes + cli::dump(cli::info_json(profile)).size();
}

/// The pinned memory that a compacted trace has tables of.
std::uint64_t read_pinned_tables(const replay::Analysis& analysis) {
  std::uint64_t bytes = 0;
  for (const pins::PinnedMoment& moment : pins::pinned_moments(analysis.file())) {
    try {
      const pins::PinnedMemory memory = pins::read_pinned_table(analysis, moment);
      std::vector<std::uint32_t> groups(analysis.profile().nodes.size());
      std::iota(groups.begin(), groups.end(), 0u);
      auto ranked = pins::rank_groups(memory.kept.sets, memory.kept.by_node, groups, groups.size());
      pins::add_companions(memory.kept.sets, ranked, 3, 2);
      bytes += memory.overhead_bytes() + ranked.size();
      for (const std::uint64_t one : pins::bytes_at_common_callers(analysis.profile(), memory.kept.sets))
        bytes += one;
    } catch (const trace::TraceError&) {
      // The table is damaged.
    }
  }
  return bytes;
}

}  // namespace

std::size_t read_events(const std::string& path) {
  std::size_t events = 0;
  try {
    const trace::TraceFile file(path);
    trace::MergedReader reader(file);
    trace::Batch batch;
    while (reader.next(batch)) events += batch.count;
  } catch (const trace::TraceError&) {
    // The trace is rejected.
  }
  return events;
}

std::size_t whole_report(const std::string& path, const replay::Selection& selection, const Steps& steps) {
  std::size_t bytes = 0;
  try {
    const replay::Analysis analysis(path, selection);
    const model::Profile& profile = analysis.profile();
    if (steps.reports) bytes += print_all(profile);
    bytes += read_pinned_tables(analysis);
    if (!steps.second_pass) return bytes;
    analysis.for_each_event([&](std::span<const replay::ProfileEvent> events) { bytes += events.size(); });
    const std::vector<std::uint32_t> group(profile.nodes.size(), 0);
    bytes += analysis.live_by_group(group, 1).size();
    if (!selection.with_timeline) return bytes;
    model::LeakHistory stacks(1, analysis.leak_steps(), analysis.clock());
    model::LeakHistory sites(1, analysis.leak_steps(), analysis.clock());
    analysis.follow_leaks(stacks, group, sites, group);
    stacks.finish();
    sites.finish();
    bytes += stacks.of(0).freed_blocks + sites.of(0).rises;
  } catch (const trace::TraceError&) {
    // The trace is rejected.
  }
  return bytes;
}

}  // namespace heapprof::fuzz
