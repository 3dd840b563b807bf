// heapprof check of several recordings: limits for each process, and for all of them together.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/commands/compare/check_limits.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/processes_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

constexpr const char* kTogether = "all processes together";

/// What is compared of one process.
struct OfProcess {
  CheckFigures figures;
  bool names_found = true;
  bool stopped = false;         ///< the recording ended before the program
  bool lacks_mappings = false;  ///< that are to be counted
};

/// A verdict about a process, or about all.
struct Verdict {
  CheckVerdict verdict;
  std::optional<std::size_t> process;  ///< position in Together::processes
};

struct Verdicts {
  std::vector<Verdict> all;
  std::vector<std::string> lines;  ///< of the text
  std::vector<std::string> none;   ///< why there is no verdict
  bool exceeded = false;
};

/// Compares one limit with each process whose figures are known: a line for each that exceeds it, and one for the
/// others. Without mappings, a figure that counts them can exceed a limit, but is never known to be within it.
void compare_processes(const CheckLimit& limit, std::uint64_t allowed, std::size_t figure,
                       const MergedRecordings& merged, const std::map<std::size_t, OfProcess>& of_member,
                       Verdicts& verdicts) {
  constexpr std::size_t kMaxLines = 10;
  const CheckVerdict* highest = nullptr;
  std::vector<CheckVerdict> of_process;
  const std::vector<model::ProcessFigures>& processes = merged.profile.together->processes;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const auto of = of_member.find(merged.members[i]);
    if (of == of_member.end()) continue;
    const CheckFigures& figures = of->second.figures;
    CheckVerdict verdict{limit.name,
                         limit.bytes,
                         figures.compared[figure],
                         allowed,
                         false,
                         limit.suppressed == nullptr ? 0 : figures.suppressed.*limit.suppressed,
                         cli::name_of(processes[i])};
    if (of->second.lacks_mappings && !verdict.exceeded()) continue;
    verdicts.all.push_back({verdict, i});
    of_process.push_back(std::move(verdict));
  }
  std::ranges::stable_sort(of_process, std::ranges::greater(), &CheckVerdict::figure);
  const auto exceeding = static_cast<std::size_t>(std::ranges::count_if(of_process, &CheckVerdict::exceeded));
  verdicts.exceeded |= exceeding != 0;
  for (std::size_t i = 0; i < std::min(exceeding, kMaxLines); ++i)
    verdicts.lines.push_back("FAILED  " + sentence_of(of_process[i]));
  if (exceeding > kMaxLines)
    verdicts.lines.push_back("FAILED  " + std::string(limit.name) + ": so do " +
                             render::exact_number(exceeding - kMaxLines) + " more processes; --json lists all");
  if (exceeding == of_process.size()) return;
  highest = &of_process[exceeding];
  CheckVerdict rest = *highest;
  rest.of = (of_process.size() - exceeding == 1 ? std::string()
                                                : "each of " + render::exact_number(of_process.size() - exceeding) +
                                                      " processes, at most that of ") +
            rest.of;
  verdicts.lines.push_back("ok      " + sentence_of(rest));
}

/// `lacks_mappings`: of any process.
void compare_sum(const char* name, std::uint64_t figure, std::uint64_t allowed, std::uint64_t suppressed,
                 bool lacks_mappings, Verdicts& verdicts) {
  const CheckVerdict verdict{name, true, figure, allowed, false, suppressed, kTogether};
  if (lacks_mappings && !verdict.exceeded()) return;
  verdicts.all.push_back({verdict, std::nullopt});
  verdicts.lines.push_back((verdict.exceeded() ? "FAILED  " : "ok      ") + sentence_of(verdict));
  verdicts.exceeded |= verdict.exceeded();
}

/// Adds why the recordings are not enough for a verdict: what they lack may exceed a limit.
void add_incomplete(const MergedRecordings& merged, const std::map<std::size_t, OfProcess>& of_member,
                    std::vector<std::string>& reasons) {
  const model::Together& together = *merged.profile.together;
  for (std::size_t i = 0; i < together.processes.size(); ++i) {
    const model::ProcessFigures& process = together.processes[i];
    const auto of = of_member.find(merged.members[i]);
    std::string reason;
    if (of == of_member.end()) reason = "its figures are unknown";
    else if (of->second.lacks_mappings) reason = kNoMappings;
    else if (of->second.stopped) reason = process.end + "; what the program did later is unknown";
    else if (!process.complete) reason = "the recording is incomplete";
    if (!reason.empty()) reasons.push_back(cli::name_of(process) + ": " + reason + ", so no verdict");
  }
  if (together.unread != 0)
    reasons.push_back(render::exact_number(together.unread) + (together.unread == 1 ? " recording" : " recordings") +
                      " cannot be read, so no verdict");
}

std::string junit_of(const RecordingSet& set, const MergedRecordings& merged, const Verdicts& verdicts) {
  std::vector<JunitCase> cases;
  for (const std::string& reason : verdicts.none) cases.push_back({base_name(set.name()), "recording", reason});
  for (const Verdict& one : verdicts.all)
    cases.push_back({base_name(one.process ? merged.profile.together->processes[*one.process].trace : set.name()),
                     one.verdict.name, one.verdict.exceeded() ? sentence_of(one.verdict) : ""});
  return junit_document(cases);
}

Json json_of(const MergedRecordings& merged, const Verdicts& verdicts) {
  Json json = head_json(merged.profile);
  Json& list = json["checks"] = Json::array();
  for (const Verdict& one : verdicts.all) {
    Json entry = {
        {"name", one.verdict.name},   {"of", one.process ? "process" : "sum"}, {"figure", one.verdict.figure},
        {"limit", one.verdict.limit}, {"suppressed", one.verdict.suppressed},  {"ok", !one.verdict.exceeded()}};
    if (one.process) {
      entry["process"] = *one.process;
      entry["pid"] = merged.profile.together->processes[*one.process].pid;
    }
    list.push_back(std::move(entry));
  }
  json["no_verdict"] = verdicts.none.empty() ? Json(nullptr) : Json(verdicts.none.front());
  json["ok"] = !verdicts.exceeded && verdicts.none.empty();
  return json;
}

}  // namespace

int check_processes(const CheckOptions& options) {
  const Suppressions suppressions = read_suppressions(options.suppressions);
  TraceOptions trace = for_costs(options.trace);
  trace.selection.with_timeline = options.max_sum_peak.has_value();
  std::map<std::size_t, OfProcess> of_member;
  std::map<std::size_t, processes::LiveBounds> bounds_of_member;
  Verdicts verdicts;
  const auto compare = [&](const RecordingSet& set, const MergedRecordings& merged) {
    if (!options.junit.empty())
      for (const RecordingSet::Member& member : set.members()) refuse_recording_as_output(options.junit, member.path);
    for (std::size_t i = 0; i < kCheckedFigures; ++i)
      if (options.limits[i]) compare_processes(check_limits()[i], *options.limits[i], i, merged, of_member, verdicts);
    const bool lacks_mappings =
        std::ranges::any_of(of_member, [](const auto& one) { return one.second.lacks_mappings; });
    if (options.max_sum_leaked) {
      constexpr auto kLeaked = static_cast<std::size_t>(CheckedFigure::kLeaked);
      std::uint64_t leaked = 0, suppressed = 0;
      for (const auto& [member, of] : of_member) {
        leaked += of.figures.compared[kLeaked];
        suppressed += of.figures.suppressed.bytes;
      }
      compare_sum("leaked", leaked, *options.max_sum_leaked, suppressed, lacks_mappings, verdicts);
    }
    if (options.max_sum_peak) {
      std::vector<processes::LiveBounds> bounds(set.members().size());
      for (auto& [member, one] : bounds_of_member) bounds[member] = std::move(one);
      const std::optional<SumPeakOfSet> peak = find_sum_peak(set, options.trace, bounds);
      compare_sum("peak", peak ? peak->bytes : 0, *options.max_sum_peak, 0, lacks_mappings, verdicts);
      if (peak && peak->bytes <= *options.max_sum_peak && peak->at_most_bytes > *options.max_sum_peak)
        verdicts.none.push_back("the peak of all processes together is only known to be between " +
                                render::human_bytes(peak->bytes) + " and " +
                                render::human_bytes(peak->at_most_bytes));
    }
    const bool any_name =
        of_member.empty() || std::ranges::any_of(of_member, [](const auto& one) { return one.second.names_found; });
    if (!any_name && !forbids_allocation(options))
      verdicts.none.push_back("nothing in the recordings matches " + merged.profile.selection_text +
                              " (renamed?); no verdict");
    add_incomplete(merged, of_member, verdicts.none);
    std::string text;
    for (const std::string& reason : verdicts.none) text += "FAILED  " + reason + "\n";
    for (const std::string& line : verdicts.lines) text += line + "\n";
    write_output(options.trace.output, options.trace.json ? dump(json_of(merged, verdicts)) : text);
    if (!options.junit.empty()) write_output(options.junit, junit_of(set, merged, verdicts));
  };
  const int status = run_on_recordings(
      trace, compare, [&](std::size_t member, const replay::Analysis& analysis, std::uint64_t start_ns) {
        const model::Profile& profile = analysis.profile();
        OfProcess of{check_figures_of(options, suppressions, analysis), analysis.names_found(),
                     profile.integrity.ended_by == "stopped" && profile.end_ns() >= profile.recording.duration_ns,
                     lacks_mappings(profile)};
        if (options.max_sum_peak) bounds_of_member[member] = bounds_of(profile, start_ns);
        of_member.emplace(member, std::move(of));  // a member that could not be read to here has none
      });
  // run_on_recordings() has printed which recordings lack mappings.
  for (const std::string& reason : verdicts.none)
    if (reason.find(kNoMappings) == std::string::npos) print_message(options.trace.trace + ": " + reason);
  return verdicts.exceeded ? kLimitExceeded : !verdicts.none.empty() ? 1 : status;
}

}  // namespace heapprof::cli
