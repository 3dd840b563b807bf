#include "analyzer/cli/commands/peak_moment.h"

#include "analyzer/cli/text/progress_line.h"
#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/symbols/module_symbols.h"

namespace heapprof::cli {
namespace {

constexpr const char* kPeakWord = "peak";

std::uint64_t peak_ns_of(const TraceOptions& options) {
  replay::Selection selection;
  selection.kind = options.selection.kind;
  selection.only_costs = true;
  ProgressLine progress("Searching " + options.trace + " for the peak");
  const replay::Analysis analysis(
      options.trace, selection, [&](double share, std::uint64_t records) { progress.show(share, records); },
      {.use = options.use_index, .keep = options.use_index}, symbols::decode_shared_symbols, {}, {});
  progress.show(1, 0);
  if (analysis.profile().totals.peak_bytes == 0)
    throw replay::SelectionError(options.trace + ": no byte was live, so there is no peak; give another moment");
  return analysis.profile().peak_time_ns;
}

}  // namespace

void resolve_peak(TraceOptions& options) {
  std::string time;
  for (std::string* const moment :
       {&options.texts.from, &options.texts.to, &options.texts.live_at, &options.texts.survivors}) {
    if (*moment != kPeakWord) continue;
    if (time.empty()) time = replay::exact_time(peak_ns_of(options));
    *moment = time;
  }
}

std::string resolve_peak(const TraceOptions& options, const std::string& moment) {
  return moment == kPeakWord ? replay::exact_time(peak_ns_of(options)) : moment;
}

void resolve_peak(const TraceOptions& options, std::optional<replay::Moment>& moment) {
  if (!moment || moment->mark != kPeakWord || moment->text != kPeakWord) return;
  moment->value = static_cast<double>(peak_ns_of(options)) / 1e9;
  moment->mark.clear();
}

}  // namespace heapprof::cli
