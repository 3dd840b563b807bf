// heapprof check: limits for continuous integration.
//
//   exit status 0   no limit was exceeded
//               3   a limit was exceeded
//               1   no verdict: the trace is incomplete, its recording stopped before the program ended, it has no
//                   mappings and --kind counts them, or nothing in it matches --function, --module or --thread
//
// A name that matches nothing may have been renamed, and a limit on it could then never be exceeded. A limit of 0 on
// allocations states that nothing may be allocated there, so that names without a match are no error. Leaks are
// compared as `heapprof leaks` lists them, without suppressed blocks.
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/compare/check_limits.h"
#include "analyzer/cli/commands/shared/pinned.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"

namespace heapprof::cli {
namespace {

/// Why there is no verdict, although no limit was exceeded.
struct NoVerdict {
  const char* name = "";  ///< what is missing: "names", "recording"
  std::string reason;     ///< empty: there is a verdict
  bool exists() const noexcept { return !reason.empty(); }
};

std::string junit_of(const std::string& trace, const std::vector<CheckVerdict>& verdicts,
                     const NoVerdict& no_verdict) {
  std::vector<JunitCase> cases;
  if (no_verdict.exists()) cases.push_back({base_name(trace), no_verdict.name, no_verdict.reason});
  for (const CheckVerdict& verdict : verdicts) {
    JunitCase& one = cases.emplace_back(
        JunitCase{base_name(trace), verdict.name + (verdict.against_baseline ? " against the baseline" : "")});
    if (verdict.exceeded()) one.failure = sentence_of(verdict);
    else if (verdict.suppressed != 0) one.output = sentence_of(verdict);
  }
  return junit_document(cases);
}

/// Names that match nothing, or a recording that is incomplete, lacks mappings that are to be counted, or does not
/// reach the end of the program or of the slice.
NoVerdict find_no_verdict(const CheckOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  if (lacks_mappings(profile)) return {"recording", std::string(kNoMappings) + ", so no verdict"};
  if (!analysis.names_found() && !forbids_allocation(options))
    return {"names", "nothing in the recording matches " + profile.selection_text + " (renamed?); no verdict"};
  if (profile.integrity.ended_by == "stopped" && profile.end_ns() >= profile.recording.duration_ns)
    return {"recording", ending_after(profile.integrity, profile.recording.compacted, profile.recording.duration_ns) +
                             "; what the program did later is unknown, so no verdict"};
  if (!profile.integrity.complete) return {"recording", "the recording is incomplete, so no verdict"};
  return {};
}

/// Reads the baseline's figures with the same selection and suppressions. Returns the exit status; `figures` are set
/// only if it is 0.
int read_baseline(const CheckOptions& options, std::optional<CheckFigures>& figures) {
  TraceOptions trace = options.trace;
  trace.trace = options.baseline;
  const int status = run_on_trace(trace, [&](const replay::Analysis& analysis) {
    figures = check_figures_of(options, read_suppressions(options.suppressions), analysis);
  });
  if (status != 0) figures.reset();
  return status;
}

int check(const CheckOptions& options) {
  if (!options.junit.empty()) refuse_recording_as_output(options.junit, options.trace.trace);
  std::optional<CheckFigures> baseline;
  if (!options.baseline.empty())
    if (const int status = read_baseline(options, baseline); status != 0) return status;
  bool exceeded = false;
  NoVerdict no_verdict;
  bool is_printed = false;  // its reason, by run_on_trace()
  std::vector<pins::PinningBlock> live;
  const auto compare = [&](const replay::Analysis& analysis) {
    const CheckFigures figures = check_figures_of(options, read_suppressions(options.suppressions), analysis);
    std::vector<CheckVerdict> verdicts;
    for (std::size_t i = 0; i < kCheckedFigures; ++i) {
      const CheckLimit& limit = check_limits()[i];
      CheckVerdict verdict{limit.name, limit.bytes, figures.compared[i]};
      if (limit.suppressed != nullptr) verdict.suppressed = figures.suppressed.*limit.suppressed;
      if (options.limits[i]) {
        verdict.limit = *options.limits[i];
        verdicts.push_back(verdict);
      }
      if (!baseline) continue;
      verdict.limit = with_tolerance(baseline->compared[i], options.tolerance_percent);
      verdict.against_baseline = true;
      verdicts.push_back(verdict);
    }
    // Without mappings, a figure that counts them can exceed a limit, but is never known to be within it.
    const bool is_lower_bound = lacks_mappings(analysis.profile());
    if (is_lower_bound) std::erase_if(verdicts, [](const CheckVerdict& one) { return !one.exceeded(); });
    if (options.max_pinned)
      verdicts.push_back({"pinned", true,
                          read_pinned_memory(options.trace, analysis, std::move(live)).overhead_bytes(),
                          *options.max_pinned});
    no_verdict = find_no_verdict(options, analysis);
    is_printed = is_lower_bound;
    std::string text =
        no_verdict.exists() ? "FAILED  " + std::string(no_verdict.name) + ": " + no_verdict.reason + "\n" : "";
    Json json = json_document();
    json["integrity"] = integrity_json(analysis.profile().integrity);
    if (figures.compares_leaks) {
      json["leaked_bytes"] = analysis.profile().totals.leaked_bytes;
      json["leaked_blocks"] = analysis.profile().totals.leaked_blocks;
      add_suppressed(json, figures.suppressed);
    }
    Json& list = json["checks"] = Json::array();
    for (const CheckVerdict& verdict : verdicts) {
      exceeded |= verdict.exceeded();
      text += std::string(verdict.exceeded() ? "FAILED  " : "ok      ") + sentence_of(verdict) + "\n";
      list.push_back({{"name", verdict.name},
                      {"figure", verdict.figure},
                      {"limit", verdict.limit},
                      {"against_baseline", verdict.against_baseline},
                      {"ok", !verdict.exceeded()}});
    }
    json["names_found"] = analysis.names_found();
    json["no_verdict"] = no_verdict.exists() ? Json(no_verdict.reason) : Json(nullptr);
    json["ok"] = !exceeded && !no_verdict.exists();
    write_output(options.trace.output, options.trace.json ? dump(json) : text);
    if (!options.junit.empty()) write_output(options.junit, junit_of(options.trace.trace, verdicts, no_verdict));
  };
  const int status = run_on_trace(for_costs(options.trace), compare,
                                  options.max_pinned ? collect_into(live) : replay::LeakVisitor{});
  if (no_verdict.exists() && !is_printed) print_message(options.trace.trace + ": " + no_verdict.reason);
  return exceeded ? kLimitExceeded : no_verdict.exists() ? 1 : status;
}

}  // namespace

int run_check(const CheckOptions& given) {
  return guarded(given.trace.trace, [&] {
    if (!given.trace.traces.empty()) return check_processes(given);
    CheckOptions options = given;
    if (options.max_pinned) choose_known_moment(options.trace);
    return check(options);
  });
}

}  // namespace heapprof::cli
