// Everything the analyzer makes of a trace, without symbols: both reports and, if asked for, the events twice more, which takes as
// long as the rest.
#pragma once

#include <memory>
#include <string>

#include "analyzer/cli/names.h"
#include "analyzer/cli/ranking.h"
#include "analyzer/cli/report_json.h"
#include "analyzer/cli/report_text.h"
#include "analyzer/replay/analysis.h"
#include "analyzer/trace/input_file.h"

namespace heapprof::fuzz {

inline std::size_t whole_report(const std::string& path, const replay::Selection& selection, bool second_pass) {
  std::size_t bytes = 0;
  try {
    const replay::Analysis analysis(path, selection);
    const model::Profile& profile = analysis.profile();
    for (const cli::Cost cost : {cli::Cost::kPeak, cli::Cost::kLeaked}) {
      const auto stacks = cli::rank_stacks(profile, cost);
      symbols::Options options;
      options.symbols = false;
      std::vector<std::uint32_t> nodes;
      for (const auto& stack : stacks) nodes.push_back(stack.node);
      cli::Names names(profile, options);
      names.resolve(nodes);
      bytes += cli::ReportText(profile, {}).head().stacks(cost, stacks, stacks.size(), names).notes({}).text().size();
      bytes += cli::dump(cli::report_json(profile, cost, stacks, names)).size();
    }
    bytes += cli::ReportText(profile, {}).description().notes({}).text().size();
    bytes += cli::dump(cli::info_json(profile)).size();
    if (!second_pass) return bytes;
    analysis.for_each_event([&](std::span<const replay::ProfileEvent> events) { bytes += events.size(); });
    const std::vector<std::uint32_t> group(profile.nodes.size(), 0);
    bytes += analysis.live_by_group(group, 1).size();
  } catch (const trace::TraceError&) {
    // a clear refusal
  }
  return bytes;
}

}  // namespace heapprof::fuzz
