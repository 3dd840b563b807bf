#include "analyzer/cli/commands/shared/pinned.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/cli/commands/shared/peak_moment.h"
#include "analyzer/cli/text/progress_line.h"
#include "analyzer/pins/pinned_tables.h"
#include "analyzer/render/units.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/trace/files/input_file.h"

namespace heapprof::cli {

replay::LeakVisitor collect_into(std::vector<pins::PinningBlock>& blocks) {
  return [&blocks](const replay::LiveBlock& block) { blocks.push_back({block.address, block.size, block.node}); };
}

namespace {

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

/// The one that `at_ns` means, as for `rss` (rss::snapshot_at); null: none.
const pins::PinnedMoment* moment_at(const std::vector<pins::PinnedMoment>& moments, std::uint64_t at_ns) {
  constexpr std::uint64_t kRounding = 200;
  constexpr std::uint64_t kSampleDistanceNs = 10'000'000;
  const auto nearest = std::ranges::min_element(
      moments, {}, [=](const pins::PinnedMoment& one) { return distance(one.at_ns, at_ns); });
  if (nearest == moments.end() || distance(nearest->at_ns, at_ns) > std::max(at_ns / kRounding, kSampleDistanceNs))
    return nullptr;
  return &*nearest;
}

/// "3.217": a value of --at that means the moment at this time.
std::string time_text(std::uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, ns < 1'000'000'000 ? "%.6f" : "%.3f", static_cast<double>(ns) / 1e9);
  return text;
}

/// "the end and for 22 snapshots only. Use one of the times 1.500, 2.250, or ".
std::string describe(std::vector<pins::PinnedMoment> moments, std::uint64_t at_ns) {
  constexpr std::size_t kMaxNamed = 6;
  std::erase_if(moments, [](const pins::PinnedMoment& one) { return one.snapshot == 0; });
  if (moments.empty()) return "the end only. Use ";
  const std::size_t all = moments.size();
  if (all > kMaxNamed) {
    std::ranges::sort(moments, {}, [=](const pins::PinnedMoment& one) { return distance(one.at_ns, at_ns); });
    moments.resize(kMaxNamed);
    std::ranges::sort(moments, {}, &pins::PinnedMoment::at_ns);
  }
  std::string text = "the end and for " + render::exact_number(all) + (all == 1 ? " snapshot" : " snapshots") +
                     " only. Use one of the times ";
  for (const pins::PinnedMoment& one : moments) text += time_text(one.at_ns) + ", ";
  if (all > kMaxNamed) text += "which are the nearest, ";
  return text + "or ";
}

/// Of a trace without addresses, which knows the pinned memory of some moments.
pins::PinnedMemory read_pinned_moment(const TraceOptions& options, const replay::Analysis& analysis) {
  constexpr std::uint64_t kRoundingNs = 1'000;  // of times in a compacted trace
  constexpr const char* kOriginal = "the original recording, or one compacted with --exact, answers for every moment";
  const std::vector<pins::PinnedMoment> moments = pins::pinned_moments(analysis.file());
  // The table of the end is the last one.
  const bool has_tables = analysis.file().header().version_minor >= trace::kPinnedSinceMinor;
  if (has_tables && (moments.empty() || moments.back().snapshot != 0))
    throw trace::TraceError(options.trace + ": what it knows about pinned memory is damaged or truncated; " +
                            kOriginal);
  if (moments.empty())
    throw trace::TraceError(options.trace + ": pinned memory follows from the addresses of blocks, which 'heapprof " +
                            "compact' replaced by numbers; " + kOriginal);
  const std::uint64_t at_ns = analysis.profile().end_ns();
  const bool is_end = at_ns >= analysis.profile().recording.duration_ns;
  for (const pins::PinnedMoment& one : moments)
    if (is_end ? one.snapshot == 0 : one.snapshot != 0 && distance(one.at_ns, at_ns) < kRoundingNs)
      return pins::read_pinned_table(analysis, one);
  throw trace::TraceError(options.trace + ": no pinned memory at " + render::human_time(at_ns) +
                          ": 'heapprof compact' kept it for " + describe(moments, at_ns) +
                          "the original recording, or one compacted with --exact");
}

}  // namespace

void choose_known_moment(TraceOptions& options) {
  resolve_peak(options);
  options.texts.peak.reset();  // the addresses come from records, which end with a time
  const std::optional<replay::Moment> moment = parse_moment(options.texts.to);
  if (!moment) return;
  const std::vector<pins::PinnedMoment> moments = pins::pinned_moments(trace::TraceFile(options.trace));
  if (moments.empty() || moments.back().snapshot != 0) return;
  const std::uint64_t end_ns = moments.back().at_ns;
  const double ns = moment->percent ? moment->value / 100 * static_cast<double>(end_ns) : moment->value * 1e9;
  if (ns >= static_cast<double>(end_ns)) return;
  const pins::PinnedMoment* const known = moment_at(moments, static_cast<std::uint64_t>(ns));
  if (known != nullptr) options.texts.to = known->snapshot == 0 ? "" : replay::exact_time(known->at_ns);
}

pins::PinnedMemory read_pinned_memory(const TraceOptions& options, const replay::Analysis& analysis,
                                      std::vector<pins::PinningBlock> live) {
  if (!pins::has_addresses(analysis.profile())) return read_pinned_moment(options, analysis);
  ProgressLine progress("Reading " + options.trace + " again");
  return pins::find_pinned_memory(analysis, std::move(live), [&](const replay::Done& done) { progress.show(done); });
}

void refuse_moment_after_end(const TraceOptions& options, const model::Profile& profile) {
  const auto moment = parse_moment(options.texts.to);
  if (!moment || moment->percent) return;
  // Reports round the duration: half a percent more still means the end.
  const auto duration = static_cast<double>(profile.recording.duration_ns);
  if (moment->value * 1e9 > duration * 1.005)
    throw replay::SelectionError(options.trace + ": --at " + options.texts.to + " is after the recording's end at " +
                                 render::human_time(profile.recording.duration_ns) +
                                 "; give at most that, or a percentage (50%)");
}

}  // namespace heapprof::cli
