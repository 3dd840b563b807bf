#include "analyzer/cli/commands/compare/check_limits.h"

#include <cmath>
#include <iterator>
#include <vector>

#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

// The figures are those of the selection and of --kind, as `report` prints them.
constexpr CheckLimit kLimits[] = {
    {"peak", [](const model::Profile& p) { return p.totals.peak_bytes; }, true, true},
    {"leaked", [](const model::Profile& p) { return p.totals.leaked_bytes; }, true, false, &Suppressed::bytes},
    {"leaked blocks", [](const model::Profile& p) { return p.totals.leaked_blocks; }, false, false,
     &Suppressed::blocks},
    {"allocated", [](const model::Profile& p) { return p.totals.allocated_bytes; }, true, true},
    {"allocations", [](const model::Profile& p) { return p.totals.allocations; }, false, true},
    {"temporary", [](const model::Profile& p) { return p.totals.temporary; }, false, false},
};
static_assert(std::size(kLimits) == kCheckedFigures);

bool compares_leaks(const CheckOptions& options) {
  if (!options.baseline.empty() || options.max_sum_leaked) return true;
  for (std::size_t i = 0; i < kCheckedFigures; ++i)
    if (kLimits[i].suppressed != nullptr && options.limits[i]) return true;
  return false;
}

std::string xml(const std::string& text) { return render::xml(render::clean_utf8(text)); }

}  // namespace

std::span<const CheckLimit> check_limits() { return kLimits; }

CheckFigures check_figures_of(const CheckOptions& options, Suppressions suppressions,
                              const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  CheckFigures figures;
  figures.compares_leaks = compares_leaks(options);
  if (figures.compares_leaks && !suppressions.empty()) {
    std::vector<RankedStack> stacks = rank_stacks(profile, Cost::kLeaked);
    StackNames names(profile, options.trace.symbols);
    names.resolve(nodes_of(stacks));
    figures.suppressed = suppress(suppressions, names, stacks);
    if (options.trace.traces.empty()) report_unmatched_rules(options.trace.trace, profile, figures.suppressed);
  }
  for (std::size_t i = 0; i < kCheckedFigures; ++i) {
    figures.compared[i] = kLimits[i].figure(profile);
    if (kLimits[i].suppressed != nullptr) figures.compared[i] -= figures.suppressed.*kLimits[i].suppressed;
  }
  return figures;
}

bool forbids_allocation(const CheckOptions& options) {
  for (std::size_t i = 0; i < kCheckedFigures; ++i)
    if (kLimits[i].zero_means_none && options.limits[i] == 0) return true;
  return false;
}

std::uint64_t with_tolerance(std::uint64_t baseline, double percent) noexcept {
  // In integers: 100 * 1.15 is less than 115 in floating point.
  __extension__ using Wide = unsigned __int128;
  constexpr std::uint64_t kMax = ~std::uint64_t{0}, kPerPercent = 1'000'000;
  if (baseline == 0) return 0;
  if (percent >= 1e13) return kMax;
  const auto millionths = static_cast<std::uint64_t>(std::llround(percent * kPerPercent));
  const Wide allowed = baseline + static_cast<Wide>(baseline) * millionths / (100 * kPerPercent);
  return allowed > kMax ? kMax : static_cast<std::uint64_t>(allowed);
}

std::string sentence_of(const CheckVerdict& verdict) {
  const auto number = [&](std::uint64_t value) {
    return verdict.bytes ? render::human_bytes(value) + " (" + render::exact_number(value) + ")"
                         : render::exact_number(value);
  };
  return verdict.name + (verdict.of.empty() ? "" : " of " + verdict.of) + ": " + number(verdict.figure) +
         (verdict.exceeded() ? " exceeds the limit of " : " is within the limit of ") + number(verdict.limit) +
         (verdict.against_baseline ? ", the baseline plus the tolerance" : "") +
         (verdict.suppressed != 0 ? "; " + number(verdict.suppressed) + " suppressed" : "");
}

std::string junit_document(std::span<const JunitCase> cases) {
  std::size_t failures = 0;
  for (const JunitCase& one : cases) failures += !one.failure.empty();
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"heapprof check\" tests=\"" +
      std::to_string(cases.size()) + "\" failures=\"" + std::to_string(failures) + "\">\n";
  for (const JunitCase& one : cases) {
    text += "    <testcase classname=\"" + xml(one.class_name) + "\" name=\"" + xml(one.name) + "\"";
    if (!one.failure.empty()) text += "><failure message=\"" + xml(one.failure) + "\"/></testcase>\n";
    else if (!one.output.empty()) text += "><system-out>" + xml(one.output) + "</system-out></testcase>\n";
    else text += "/>\n";
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

}  // namespace heapprof::cli
