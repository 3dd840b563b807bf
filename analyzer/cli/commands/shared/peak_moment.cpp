#include "analyzer/cli/commands/shared/peak_moment.h"

#include "analyzer/cli/text/progress_line.h"
#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/symbols/module_symbols.h"

namespace heapprof::cli {
namespace {

constexpr const char* kPeakWord = "peak";

struct Peak {
  std::uint64_t ns;
  std::optional<replay::EventPosition> position;  // none: only its time is known
};

/// The peak of `selection`.
Peak find_peak(const TraceOptions& options, replay::Selection selection) {
  selection.only_live = false;
  selection.only_costs = true;
  ProgressLine progress("Searching " + options.trace + " for the peak");
  const replay::Analysis analysis(options.trace, selection, [&](const replay::Done& done) { progress.show(done); },
                                  {.use = options.use_index, .keep = options.use_index},
                                  symbols::decode_shared_symbols, {}, {});
  progress.end();
  if (analysis.profile().totals.peak_bytes == 0)
    throw replay::SelectionError(options.trace + ": no byte was live, so there is no peak; give another moment");
  return {analysis.profile().peak_time_ns, analysis.peak_position()};
}

/// Of the whole recording.
Peak find_peak(const TraceOptions& options) {
  replay::Selection selection;
  selection.kind = options.selection.kind;
  return find_peak(options, selection);
}

}  // namespace

void resolve_peak(TraceOptions& options) {
  std::optional<Peak> peak;
  for (std::string* const moment :
       {&options.texts.from, &options.texts.to, &options.texts.live_at, &options.texts.survivors}) {
    if (*moment != kPeakWord) continue;
    if (!peak) peak = find_peak(options);
    *moment = replay::exact_time(peak->ns);
  }
  if (peak && peak->position) options.texts.peak = {replay::exact_time(peak->ns), *peak->position};
}

void resolve_own_peak(TraceOptions& options) {
  if (!options.at_own_peak || !options.texts.live_at.empty() || !options.texts.survivors.empty()) return;
  replay::Selection selection = options.selection;
  resolve_selection(options.texts, options.symbols, selection);
  const Peak peak = find_peak(options, selection);
  options.texts.from.clear();
  options.texts.to.clear();
  // What is freed by the end of the slice depends on its end, which may have a position: --to peak.
  if (selection.freed != replay::Freed::kAny) options.selection.to = selection.to;
  options.texts.peak.reset();
  // Without a position, the peak is what was live before the slice.
  const std::uint64_t ns = peak.position || peak.ns == 0 ? peak.ns : peak.ns - 1;
  options.texts.live_at = replay::exact_time(ns);
  if (peak.position) options.texts.peak = {options.texts.live_at, *peak.position};
}

std::string resolve_peak(const TraceOptions& options, const std::string& moment) {
  return moment == kPeakWord ? replay::exact_time(find_peak(options).ns) : moment;
}

void resolve_peak(const TraceOptions& options, std::optional<replay::Moment>& moment) {
  if (!moment || moment->mark != kPeakWord || moment->text != kPeakWord) return;
  const Peak peak = find_peak(options);
  moment->value = static_cast<double>(peak.ns) / 1e9;
  moment->position = peak.position;
  moment->mark.clear();
}

}  // namespace heapprof::cli
