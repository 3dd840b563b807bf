#include "analyzer/cli/commands/pinned.h"

#include <algorithm>
#include <string>
#include <utility>

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

/// Times in a compacted trace are rounded to this.
constexpr std::uint64_t kRoundingNs = 1'000;

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

/// "its end, and of its snapshots at 1.5s, 2.25s".
std::string describe(std::vector<pins::PinnedMoment> moments, std::uint64_t at_ns) {
  constexpr std::size_t kMaxNamed = 6;
  std::erase_if(moments, [](const pins::PinnedMoment& one) { return one.snapshot == 0; });
  if (moments.empty()) return "its end only";
  const std::size_t all = moments.size();
  if (all > kMaxNamed) {
    std::ranges::sort(moments, {}, [=](const pins::PinnedMoment& one) { return distance(one.at_ns, at_ns); });
    moments.resize(kMaxNamed);
    std::ranges::sort(moments, {}, &pins::PinnedMoment::at_ns);
  }
  std::string text = "its end, and of its snapshots at ";
  for (const pins::PinnedMoment& one : moments)
    text += (&one == moments.data() ? "" : ", ") + replay::exact_time(one.at_ns);
  if (all > kMaxNamed) text += " (the nearest of " + std::to_string(all) + "; 'heapprof info --json' lists all)";
  return text;
}

/// Of a trace without addresses, which knows the pinned memory of some moments.
pins::PinnedMemory read_pinned_moment(const TraceOptions& options, const replay::Analysis& analysis) {
  constexpr const char* kOriginal = "the original recording, or one compacted with --exact, answers for every moment";
  const std::vector<pins::PinnedMoment> moments = pins::pinned_moments(analysis.file());
  // The table of the end is the last one.
  const bool has_tables = analysis.file().header().version_minor >= trace::kCompactedVersionMinor;
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
  throw trace::TraceError(options.trace + ": is compacted, and knows the pinned memory of " +
                          describe(moments, at_ns) + "; " + kOriginal);
}

}  // namespace

pins::PinnedMemory read_pinned_memory(const TraceOptions& options, const replay::Analysis& analysis,
                                      std::vector<pins::PinningBlock> live) {
  if (!pins::has_addresses(analysis.profile())) return read_pinned_moment(options, analysis);
  ProgressLine progress("Reading " + options.trace + " again");
  return pins::find_pinned_memory(analysis, std::move(live),
                                  [&](double share, std::uint64_t events) { progress.show(share, events); });
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
