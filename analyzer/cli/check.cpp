// heapprof check: limits for continuous integration. Exit status 3 when one was passed, 0 when none was; a trace
// that lacks something gives 1 and no verdict in its favour.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "analyzer/cli/commands.h"
#include "analyzer/cli/option_values.h"
#include "analyzer/cli/report_json.h"
#include "analyzer/cli/trace_command.h"
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
};

// Of the kind asked for, under the selection. Without one, the totals of `report`.
constexpr Limit kLimits[] = {
    {"--max-peak", "peak", "Most bytes live at one moment",
     [](const model::Profile& p) { return p.totals.peak_bytes; }, true},
    {"--max-leaked", "leaked", "Most bytes live at the end",
     [](const model::Profile& p) { return p.totals.leaked_bytes; }, true},
    {"--max-leaked-blocks", "leaked blocks", "Most blocks live at the end",
     [](const model::Profile& p) { return p.totals.leaked_blocks; }, false},
    {"--max-allocated", "allocated", "Most bytes allocated in all",
     [](const model::Profile& p) { return p.totals.allocated_bytes; }, true},
    {"--max-allocations", "allocations", "Most allocations",
     [](const model::Profile& p) { return p.totals.allocations; }, false},
    {"--max-temporary", "temporary", "Most temporary allocations",
     [](const model::Profile& p) { return p.totals.temporary; }, false},
};
constexpr std::size_t kLimitCount = std::size(kLimits);

struct CheckOptions {
  TraceOptions trace;
  std::optional<std::uint64_t> limits[kLimitCount];
  std::string baseline;
  double tolerance_percent = 10;
  std::string junit;
};

struct Verdict {
  std::string name;
  bool bytes = false;
  std::uint64_t figure = 0;
  std::uint64_t limit = 0;
  bool against_baseline = false;
  bool passed_over() const noexcept { return figure > limit; }
};

std::string sentence(const Verdict& verdict) {
  const auto number = [&](std::uint64_t value) {
    return verdict.bytes ? render::human_bytes(value) + " (" + render::exact_number(value) + ")"
                         : render::exact_number(value);
  };
  return verdict.name + ": " + number(verdict.figure) + (verdict.passed_over() ? " is above " : " is within ") +
         number(verdict.limit) + (verdict.against_baseline ? ", the baseline's and what is tolerated" : "");
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

std::string junit_of(const std::string& trace, const std::vector<Verdict>& verdicts) {
  std::size_t failures = 0;
  for (const Verdict& verdict : verdicts) failures += verdict.passed_over();
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"heapprof check\" tests=\"" +
      std::to_string(verdicts.size()) + "\" failures=\"" + std::to_string(failures) + "\">\n";
  for (const Verdict& verdict : verdicts) {
    text += "    <testcase classname=\"" + xml(base_name(trace)) + "\" name=\"" + verdict.name +
            (verdict.against_baseline ? " against the baseline" : "") + "\"";
    text += verdict.passed_over() ? "><failure message=\"" + xml(sentence(verdict)) + "\"/></testcase>\n" : "/>\n";
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

/// The baseline's figures under the same selection.
std::optional<std::vector<std::uint64_t>> figures_of_baseline(const CheckOptions& options) {
  TraceOptions trace = options.trace;
  trace.trace = options.baseline;
  trace.output = "-";
  std::vector<std::uint64_t> figures;
  const int status = run_on_trace(trace, [&](const replay::Analysis& analysis) {
    for (const Limit& limit : kLimits) figures.push_back(limit.figure(analysis.profile()));
  });
  if (status != 0) return std::nullopt;
  return figures;
}

int check(const CheckOptions& options) {
  std::optional<std::vector<std::uint64_t>> baseline;
  if (!options.baseline.empty()) {
    baseline = figures_of_baseline(options);
    if (!baseline) return 1;
  }
  bool passed_over = false;
  const int status = run_on_trace(options.trace, [&](const replay::Analysis& analysis) {
    std::vector<Verdict> verdicts;
    for (std::size_t i = 0; i < kLimitCount; ++i) {
      const std::uint64_t figure = kLimits[i].figure(analysis.profile());
      if (options.limits[i])
        verdicts.push_back({kLimits[i].name, kLimits[i].bytes, figure, *options.limits[i], false});
      if (!baseline) continue;
      const double most = static_cast<double>((*baseline)[i]) * (1 + options.tolerance_percent / 100);
      verdicts.push_back({kLimits[i].name, kLimits[i].bytes, figure,
                          most >= 1.8e19 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(most), true});
    }
    std::string text;
    Json json;
    json["integrity"] = integrity_json(analysis.profile().integrity);
    Json& list = json["checks"] = Json::array();
    for (const Verdict& verdict : verdicts) {
      passed_over |= verdict.passed_over();
      text += std::string(verdict.passed_over() ? "FAILED  " : "ok      ") + sentence(verdict) + "\n";
      list.push_back({{"name", verdict.name}, {"figure", verdict.figure}, {"limit", verdict.limit},
                      {"against_baseline", verdict.against_baseline}, {"ok", !verdict.passed_over()}});
    }
    json["ok"] = !passed_over;
    write_output(options.trace.output, options.trace.json ? dump(json) : text);
    if (!options.junit.empty()) {
      refuse_trace_as_output(options.junit, analysis);
      write_output(options.junit, junit_of(options.trace.trace, verdicts));
    }
  });
  return passed_over ? kLimitPassed : status;
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
      ->capture_default_str()
      ->group("Limits");
  command->add_option("--junit", options->junit, "Write the results here, too, as JUnit XML");
  command->callback([options, &status] {
    bool any = !options->baseline.empty();
    for (const auto& limit : options->limits) any |= limit.has_value();
    if (!any) throw CLI::ValidationError("check", "give at least one limit, such as --max-peak 100M, or --baseline");
    status = check(*options);
  });
}

}  // namespace heapprof::cli
