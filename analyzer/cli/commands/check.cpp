// heapprof check: limits for continuous integration.
//
//   exit status 0   no limit was exceeded
//               3   a limit was exceeded
//               1   no verdict: the trace is incomplete, its recording stopped before the program ended, or nothing
//                   in it matches --function, --module or --thread
//
// A name that matches nothing may have been renamed, and a limit on it could then never be exceeded. A limit of 0 on
// allocations states that nothing may be allocated there, so that names without a match are no error. Leaks are
// compared as `heapprof leaks` lists them, without suppressed blocks.
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/pinned.h"
#include "analyzer/cli/commands/run_on_trace.h"
#include "analyzer/cli/commands/suppressed_leaks.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

constexpr int kLimitExceeded = 3;

struct Limit {
  const char* name;  ///< "peak"
  std::uint64_t (*figure)(const model::Profile&);
  bool bytes;
  bool zero_means_none;                             ///< a limit of 0 demands that nothing is allocated at all
  std::uint64_t Suppressed::*suppressed = nullptr;  ///< the suppressed part of the figure, or null
};

// Indexed by CheckedFigure. The figures are those of the selection and of --kind, as `report` prints them.
constexpr Limit kLimits[] = {
    {"peak", [](const model::Profile& p) { return p.totals.peak_bytes; }, true, true},
    {"leaked", [](const model::Profile& p) { return p.totals.leaked_bytes; }, true, false, &Suppressed::bytes},
    {"leaked blocks", [](const model::Profile& p) { return p.totals.leaked_blocks; }, false, false,
     &Suppressed::blocks},
    {"allocated", [](const model::Profile& p) { return p.totals.allocated_bytes; }, true, true},
    {"allocations", [](const model::Profile& p) { return p.totals.allocations; }, false, true},
    {"temporary", [](const model::Profile& p) { return p.totals.temporary; }, false, false},
};
constexpr std::size_t kLimitCount = std::size(kLimits);
static_assert(kLimitCount == kCheckedFigures);

/// The figure of a trace for each limit.
struct Figures {
  std::uint64_t compared[kLimitCount] = {};  ///< without suppressed blocks
  Suppressed suppressed;
};

struct Verdict {
  std::string name;
  bool bytes = false;
  std::uint64_t figure = 0;
  std::uint64_t limit = 0;
  bool against_baseline = false;
  std::uint64_t suppressed = 0;  ///< not included in `figure`
  bool exceeded() const noexcept { return figure > limit; }
};

std::string sentence(const Verdict& verdict) {
  const auto number = [&](std::uint64_t value) {
    return verdict.bytes ? render::human_bytes(value) + " (" + render::exact_number(value) + ")"
                         : render::exact_number(value);
  };
  return verdict.name + ": " + number(verdict.figure) +
         (verdict.exceeded() ? " exceeds the limit of " : " is within the limit of ") + number(verdict.limit) +
         (verdict.against_baseline ? ", the baseline plus the tolerance" : "") +
         (verdict.suppressed != 0 ? "; " + number(verdict.suppressed) + " suppressed" : "");
}

std::string xml(const std::string& text) { return render::xml(render::clean_utf8(text)); }

/// Why there is no verdict, although no limit was exceeded.
struct NoVerdict {
  const char* name = "";  ///< what is missing: "names", "recording"
  std::string reason;     ///< empty: there is a verdict
  bool exists() const noexcept { return !reason.empty(); }
};

std::string junit_of(const std::string& trace, const std::vector<Verdict>& verdicts, const NoVerdict& no_verdict) {
  std::size_t failures = no_verdict.exists() ? 1 : 0;
  const std::size_t tests = verdicts.size() + failures;
  for (const Verdict& verdict : verdicts) failures += verdict.exceeded();
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"heapprof check\" tests=\"" +
      std::to_string(tests) + "\" failures=\"" + std::to_string(failures) + "\">\n";
  const auto open_case = [&](const std::string& name) {
    text += "    <testcase classname=\"" + xml(base_name(trace)) + "\" name=\"" + name + "\"";
  };
  if (no_verdict.exists()) {
    open_case(no_verdict.name);
    text += "><failure message=\"" + xml(no_verdict.reason) + "\"/></testcase>\n";
  }
  for (const Verdict& verdict : verdicts) {
    open_case(verdict.name + (verdict.against_baseline ? " against the baseline" : ""));
    if (verdict.exceeded()) text += "><failure message=\"" + xml(sentence(verdict)) + "\"/></testcase>\n";
    else if (verdict.suppressed != 0) text += "><system-out>" + xml(sentence(verdict)) + "</system-out></testcase>\n";
    else text += "/>\n";
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

/// Whether a limit of 0 demands that nothing is allocated.
bool forbids_allocation(const CheckOptions& options) {
  for (std::size_t i = 0; i < kLimitCount; ++i)
    if (kLimits[i].zero_means_none && options.limits[i] == 0) return true;
  return false;
}

/// Names that match nothing, or a recording that does not reach the end of the program or of the slice.
NoVerdict find_no_verdict(const CheckOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  if (!analysis.names_found() && !forbids_allocation(options))
    return {"names", "nothing in the recording matches " + profile.selection_text + " (renamed?); no verdict"};
  if (profile.integrity.ended_by == "stopped" && profile.end_ns() >= profile.recording.duration_ns)
    return {"recording", ending_after(profile.integrity, profile.recording.compacted, profile.recording.duration_ns) +
                             "; what the program did later is unknown, so no verdict"};
  return {};
}

bool compares_leaks(const CheckOptions& options) {
  if (!options.baseline.empty()) return true;
  for (std::size_t i = 0; i < kLimitCount; ++i)
    if (kLimits[i].suppressed != nullptr && options.limits[i]) return true;
  return false;
}

/// Suppressions match function names, whose lookup takes time. They are looked up only if leaks are compared.
Figures figures_of(const CheckOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  Figures figures;
  Suppressions suppressions = read_suppressions(options.suppressions);
  if (compares_leaks(options) && !suppressions.empty()) {
    std::vector<RankedStack> stacks = rank_stacks(profile, Cost::kLeaked);
    StackNames names(profile, options.trace.symbols);
    names.resolve(nodes_of(stacks));
    figures.suppressed = suppress(suppressions, names, stacks);
    report_vain_rules(options.trace.trace, profile, figures.suppressed);
  }
  for (std::size_t i = 0; i < kLimitCount; ++i) {
    figures.compared[i] = kLimits[i].figure(profile);
    if (kLimits[i].suppressed != nullptr) figures.compared[i] -= figures.suppressed.*kLimits[i].suppressed;
  }
  return figures;
}

/// Reads the baseline's figures with the same selection and suppressions. Returns the exit status; `figures` are set
/// only if it is 0.
int read_baseline(const CheckOptions& options, std::optional<Figures>& figures) {
  TraceOptions trace = options.trace;
  trace.trace = options.baseline;
  const int status =
      run_on_trace(trace, [&](const replay::Analysis& analysis) { figures = figures_of(options, analysis); });
  if (status != 0) figures.reset();
  return status;
}

int check(const CheckOptions& options) {
  if (!options.junit.empty()) refuse_recording_as_output(options.junit, options.trace.trace);
  std::optional<Figures> baseline;
  if (!options.baseline.empty())
    if (const int status = read_baseline(options, baseline); status != 0) return status;
  bool exceeded = false;
  NoVerdict no_verdict;
  std::vector<pins::PinningBlock> live;
  const auto compare = [&](const replay::Analysis& analysis) {
    const Figures figures = figures_of(options, analysis);
    std::vector<Verdict> verdicts;
    for (std::size_t i = 0; i < kLimitCount; ++i) {
      Verdict verdict{kLimits[i].name, kLimits[i].bytes, figures.compared[i]};
      if (kLimits[i].suppressed != nullptr) verdict.suppressed = figures.suppressed.*kLimits[i].suppressed;
      if (options.limits[i]) {
        verdict.limit = *options.limits[i];
        verdicts.push_back(verdict);
      }
      if (!baseline) continue;
      const double limit = static_cast<double>(baseline->compared[i]) * (1 + options.tolerance_percent / 100);
      verdict.limit = limit >= 1.8e19 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(limit);
      verdict.against_baseline = true;
      verdicts.push_back(verdict);
    }
    if (options.max_pinned)
      verdicts.push_back({"pinned", true,
                          read_pinned_memory(options.trace, analysis, std::move(live)).overhead_bytes(),
                          *options.max_pinned});
    no_verdict = find_no_verdict(options, analysis);
    std::string text =
        no_verdict.exists() ? "FAILED  " + std::string(no_verdict.name) + ": " + no_verdict.reason + "\n" : "";
    Json json = json_document();
    json["integrity"] = integrity_json(analysis.profile().integrity);
    if (compares_leaks(options)) {
      json["leaked_bytes"] = analysis.profile().totals.leaked_bytes;
      json["leaked_blocks"] = analysis.profile().totals.leaked_blocks;
      add_suppressed(json, figures.suppressed);
    }
    Json& list = json["checks"] = Json::array();
    for (const Verdict& verdict : verdicts) {
      exceeded |= verdict.exceeded();
      text += std::string(verdict.exceeded() ? "FAILED  " : "ok      ") + sentence(verdict) + "\n";
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
  if (no_verdict.exists()) print_message(options.trace.trace + ": " + no_verdict.reason);
  return exceeded ? kLimitExceeded : no_verdict.exists() ? 1 : status;
}

}  // namespace

int run_check(const CheckOptions& given) {
  return guarded(given.trace.trace, [&] {
    CheckOptions options = given;
    if (options.max_pinned) choose_known_moment(options.trace);
    return check(options);
  });
}

}  // namespace heapprof::cli
