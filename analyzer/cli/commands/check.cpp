// heapprof check: limits for continuous integration. Exit status 3 when one was passed, 0 when none was; a trace
// that lacks something gives 1 and no verdict in its favour. So does one in which nothing goes by the names that were
// asked for (--function, --module, --thread): a limit on a function that was renamed would hold for ever. Only where
// a limit of 0 says that nothing shall be allocated there is that what was asked for.
//
// Leaks are compared as `heapprof leaks` lists them: without the blocks that a suppression accepts.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/options/suppression_options.h"
#include "analyzer/cli/commands/trace_command.h"
#include "analyzer/render/text.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

constexpr int kLimitPassed = 3;

struct Limit {
  const char* option;                   ///< "--max-peak"
  const char* name;                     ///< "peak"
  const char* help;
  std::uint64_t (*figure)(const model::Profile&);
  bool bytes;
  bool of_all;  ///< of all that is allocated: a limit of 0 means that nothing shall be
  std::uint64_t Suppressed::*suppressed = nullptr;  ///< the part of the figure that suppressions accept; null: none
};

// Of the kind asked for, under the selection. Without one, the totals of `report`.
constexpr Limit kLimits[] = {
    {"--max-peak", "peak", "Most bytes live at one moment",
     [](const model::Profile& p) { return p.totals.peak_bytes; }, true, true},
    {"--max-leaked", "leaked", "Most bytes live at the end, without suppressed ones",
     [](const model::Profile& p) { return p.totals.leaked_bytes; }, true, false, &Suppressed::bytes},
    {"--max-leaked-blocks", "leaked blocks", "Most blocks live at the end, without suppressed ones",
     [](const model::Profile& p) { return p.totals.leaked_blocks; }, false, false, &Suppressed::blocks},
    {"--max-allocated", "allocated", "Most bytes allocated in all",
     [](const model::Profile& p) { return p.totals.allocated_bytes; }, true, true},
    {"--max-allocations", "allocations", "Most allocations",
     [](const model::Profile& p) { return p.totals.allocations; }, false, true},
    {"--max-temporary", "temporary", "Most temporary allocations",
     [](const model::Profile& p) { return p.totals.temporary; }, false, false},
};
constexpr std::size_t kLimitCount = std::size(kLimits);

struct CheckOptions {
  TraceOptions trace;
  SuppressionOptions suppressions;
  std::optional<std::uint64_t> limits[kLimitCount];
  std::string baseline;
  double tolerance_percent = 10;
  std::string junit;
};

/// What a trace has of each limit's figure.
struct Figures {
  std::uint64_t compared[kLimitCount] = {};  ///< without what is suppressed
  Suppressed suppressed;
};

struct Verdict {
  std::string name;
  bool bytes = false;
  std::uint64_t figure = 0;
  std::uint64_t limit = 0;
  bool against_baseline = false;
  std::uint64_t suppressed = 0;  ///< not in `figure`
  bool passed_over() const noexcept { return figure > limit; }
};

std::string sentence(const Verdict& verdict) {
  const auto number = [&](std::uint64_t value) {
    return verdict.bytes ? render::human_bytes(value) + " (" + render::exact_number(value) + ")"
                         : render::exact_number(value);
  };
  return verdict.name + ": " + number(verdict.figure) + (verdict.passed_over() ? " is above " : " is within ") +
         number(verdict.limit) + (verdict.against_baseline ? ", the baseline's and what is tolerated" : "") +
         (verdict.suppressed != 0 ? "; " + number(verdict.suppressed) + " suppressed" : "");
}

std::string xml(const std::string& text) {
  std::string result;
  for (const char c : render::clean_utf8(text)) {
    if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '"') result += "&quot;";
    else result += c;
  }
  return result;
}

/// `names_missing`: a sentence, or empty.
std::string junit_of(const std::string& trace, const std::vector<Verdict>& verdicts,
                     const std::string& names_missing) {
  std::size_t failures = names_missing.empty() ? 0 : 1;
  const std::size_t tests = verdicts.size() + failures;
  for (const Verdict& verdict : verdicts) failures += verdict.passed_over();
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"heapprof check\" tests=\"" +
      std::to_string(tests) + "\" failures=\"" + std::to_string(failures) + "\">\n";
  const auto open_case = [&](const std::string& name) {
    text += "    <testcase classname=\"" + xml(base_name(trace)) + "\" name=\"" + name + "\"";
  };
  if (!names_missing.empty()) {
    open_case("names");
    text += "><failure message=\"" + xml(names_missing) + "\"/></testcase>\n";
  }
  for (const Verdict& verdict : verdicts) {
    open_case(verdict.name + (verdict.against_baseline ? " against the baseline" : ""));
    if (verdict.passed_over())
      text += "><failure message=\"" + xml(sentence(verdict)) + "\"/></testcase>\n";
    else if (verdict.suppressed != 0)
      text += "><system-out>" + xml(sentence(verdict)) + "</system-out></testcase>\n";
    else
      text += "/>\n";
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

/// Whether a limit of 0 says that nothing shall be allocated.
bool wants_nothing(const CheckOptions& options) {
  for (std::size_t i = 0; i < kLimitCount; ++i)
    if (kLimits[i].of_all && options.limits[i] == 0) return true;
  return false;
}

bool compares_leaks(const CheckOptions& options) {
  if (!options.baseline.empty()) return true;
  for (std::size_t i = 0; i < kLimitCount; ++i)
    if (kLimits[i].suppressed != nullptr && options.limits[i]) return true;
  return false;
}

/// Suppressions match names of functions. Looking those up takes time, so it is done only when leaks are compared.
Figures figures_of(const CheckOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  Figures figures;
  Suppressions suppressions = read_suppressions(options.suppressions);
  if (compares_leaks(options) && !suppressions.empty()) {
    std::vector<RankedStack> stacks = rank_stacks(profile, Cost::kLeaked);
    std::vector<std::uint32_t> nodes;
    for (const RankedStack& stack : stacks) nodes.push_back(stack.node);
    StackNames names(profile, options.trace.symbols);
    names.resolve(nodes);
    figures.suppressed = suppress(suppressions, names, stacks);
  }
  for (std::size_t i = 0; i < kLimitCount; ++i) {
    figures.compared[i] = kLimits[i].figure(profile);
    if (kLimits[i].suppressed != nullptr) figures.compared[i] -= figures.suppressed.*kLimits[i].suppressed;
  }
  return figures;
}

/// The baseline's figures under the same selection and suppressions. Returns the exit status; only with 0 there are
/// figures.
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
  bool passed_over = false;
  std::string names_missing;
  const int status = run_on_trace(options.trace, [&](const replay::Analysis& analysis) {
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
      const double most = static_cast<double>(baseline->compared[i]) * (1 + options.tolerance_percent / 100);
      verdict.limit = most >= 1.8e19 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(most);
      verdict.against_baseline = true;
      verdicts.push_back(verdict);
    }
    if (!analysis.names_found() && !wants_nothing(options))
      names_missing =
          "nothing in the recording goes by " + analysis.profile().selected + " (renamed?), so there is no verdict";
    std::string text = names_missing.empty() ? "" : "FAILED  names: " + names_missing + "\n";
    Json json;
    json["integrity"] = integrity_json(analysis.profile().integrity);
    if (compares_leaks(options)) {
      json["leaked_bytes"] = analysis.profile().totals.leaked_bytes;
      json["leaked_blocks"] = analysis.profile().totals.leaked_blocks;
      add_suppressed(json, figures.suppressed);
    }
    Json& list = json["checks"] = Json::array();
    for (const Verdict& verdict : verdicts) {
      passed_over |= verdict.passed_over();
      text += std::string(verdict.passed_over() ? "FAILED  " : "ok      ") + sentence(verdict) + "\n";
      list.push_back({{"name", verdict.name}, {"figure", verdict.figure}, {"limit", verdict.limit},
                      {"against_baseline", verdict.against_baseline}, {"ok", !verdict.passed_over()}});
    }
    json["names_found"] = analysis.names_found();
    json["ok"] = !passed_over && names_missing.empty();
    write_output(options.trace.output, options.trace.json ? dump(json) : text);
    if (!options.junit.empty())
      write_output(options.junit, junit_of(options.trace.trace, verdicts, names_missing));
  });
  if (!names_missing.empty()) complain(options.trace.trace + ": " + names_missing);
  return passed_over ? kLimitPassed : names_missing.empty() ? status : 1;
}

}  // namespace

void add_check(CLI::App& app, int& status) {
  const auto options = std::make_shared<CheckOptions>();
  CLI::App* const command =
      app.add_subcommand("check", "Compare figures with limits; exit status 3 when one is passed");
  add_trace_options(*command, options->trace);
  const auto number = whole_size();
  for (std::size_t i = 0; i < kLimitCount; ++i)
    command->add_option(kLimits[i].option, options->limits[i], kLimits[i].help)->transform(number)->group("Limits");
  command
      ->add_option("--baseline", options->baseline,
                   "A trace, no figure of which may be passed by more than --tolerance")
      ->group("Limits");
  command
      ->add_option("--tolerance", options->tolerance_percent,
                   "How much more than the baseline is tolerated, in percent")
      ->check(CLI::NonNegativeNumber)
      ->check(finite_number())
      ->capture_default_str()
      ->group("Limits");
  add_suppression_options(*command, options->suppressions);
  command->add_option("--junit", options->junit, "Write the results here, too, as JUnit XML");
  command->footer(
      "Exit status: 3 when a limit was passed; 1 when there is no verdict, because the trace lacks something that "
      "was recorded, or because no stack or thread in it goes by the names asked for with --function, --module or "
      "--thread: was something renamed? A limit of 0 for --max-peak, --max-allocated or --max-allocations accepts "
      "that: nothing shall be allocated there.");
  const CLI::Option* const trace = command->get_option("TRACE");
  command->callback([options, trace, &status] {
    bool any = !options->baseline.empty();
    for (const auto& limit : options->limits) any |= limit.has_value();
    if (!any) throw CLI::ValidationError("check", "give at least one limit, such as --max-peak 100M, or --baseline");
    if (!options->baseline.empty() && !was_given(trace) && is_same_file(options->trace.trace, options->baseline))
      throw CLI::ParseError("the newest recording in this folder is the baseline itself; name the recording to check: "
                            "heapprof check TRACE --baseline " + options->baseline,
                            CLI::ExitCodes::ValidationError);
    status = guarded(options->trace.trace, [&] { return check(*options); });
  });
}

}  // namespace heapprof::cli
