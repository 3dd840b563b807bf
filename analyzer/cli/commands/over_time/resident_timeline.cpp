// heapprof timeline --resident: what resident memory consists of at each snapshot, stacked over time. Where there is
// no snapshot, samples show live blocks, files and the rest.
#include <algorithm>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/commands/over_time/timeline.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/where_memory_went/rss_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/render/units.h"
#include "analyzer/rss/lines_over_time.h"

namespace heapprof::cli {
namespace {

using rss::Line;
using rss::LinesAt;

/// A site for each line that is not always empty, largest at the peak first.
void add_lines(const std::vector<LinesAt>& all, bool estimated, render::Timeline& timeline) {
  const LinesAt* peak = nullptr;
  std::uint64_t peak_bytes = 0;
  for (const LinesAt& at : all) {
    std::uint64_t sum = 0;
    for (const std::uint64_t bytes : at.bytes) sum += bytes;
    timeline.time_ns.push_back(at.time_ns);
    timeline.live_bytes.push_back(sum);
    if (peak != nullptr && sum <= peak_bytes) continue;
    peak = &at;
    peak_bytes = sum;
  }
  if (peak == nullptr) return;
  timeline.peak = render::Timeline::Peak{peak->time_ns, peak_bytes};
  for (std::size_t i = 0; i < rss::kLines; ++i) {
    const auto line = static_cast<Line>(i);
    render::Timeline::Site site;
    site.label = label_of(line);
    site.name = rss::name_of(line);
    site.detail = meaning_of(line);
    if (estimated && line == Line::kFiles) site.detail += ", and shared memory";
    if (estimated && line == Line::kUnknown) site.label = "the rest", site.detail = "not known without a snapshot";
    for (const LinesAt& at : all) site.bytes.push_back(at.bytes[i]);
    site.peak_bytes = peak->bytes[i];
    if (std::ranges::any_of(site.bytes, [](std::uint64_t bytes) { return bytes != 0; }))
      timeline.sites.push_back(std::move(site));
  }
  std::ranges::stable_sort(timeline.sites, std::greater{}, &render::Timeline::Site::peak_bytes);
}

void print_resident(const TimelineOptions& options, const replay::Analysis& analysis,
                    const rss::RecordedResidency& recorded) {
  const model::Profile& profile = analysis.profile();
  ProgressLine progress("Reading " + options.trace.trace + " again");
  const bool has_snapshots = std::ranges::any_of(recorded.snapshots, &rss::SnapshotSummary::complete);
  const bool estimated = !has_snapshots || profile.recording.rounded;
  const std::vector<LinesAt> lines =
      estimated ? rss::lines_at_samples(profile, recorded.samples)
                : rss::lines_at_snapshots(analysis, recorded.snapshots,
                                          [&](const replay::Done& done) { progress.show(done); });
  progress.end();
  render::Timeline timeline;
  const std::string program = base_name(profile.recording.program);
  timeline.live = "resident memory";
  timeline.live_field = "lines_bytes";
  timeline.title = "Resident memory of " + (program.empty() ? std::string("an unknown program") : program);
  timeline.start_ns = 0;
  // Of a recording without an end, the last snapshot may be after the last event.
  timeline.duration_ns = lines.empty() ? profile.end_ns() : std::max(profile.end_ns(), lines.back().time_ns);
  add_lines(lines, estimated, timeline);
  timeline.context = {
      {"Program", command_of(profile)},
      {estimated ? "Estimated" : "Snapshots", estimated ? "from samples, since there is no snapshot with addresses"
                                                        : render::exact_number(lines.size()) + " of " +
                                                              render::exact_number(recorded.snapshots.size()) +
                                                              "; heapprof rss TRACE --at TIME prints one"}};
  // Nothing is known of the lines before the first snapshot.
  for (const rss::ResidentSample& sample : recorded.samples)
    if (!lines.empty() && sample.time_ns >= lines.front().time_ns && sample.time_ns <= timeline.duration_ns)
      timeline.resident.push_back({sample.time_ns, sample.resident_bytes});
  for (const model::Timeline::Mark& mark : profile.timeline.marks)
    if (mark.kind == model::Timeline::Mark::Kind::kUser && mark.time_ns <= timeline.duration_ns)
      timeline.marks.push_back({mark.time_ns, mark.text});
  write_timeline(options, profile, program, timeline);
}

}  // namespace

int run_resident_timeline(const TimelineOptions& options) {
  return guarded(options.trace.trace, [&] {
    rss::RecordedResidency recorded;
    {
      ProgressLine progress("Searching " + options.trace.trace + " for snapshots");
      recorded = rss::read_residency(trace::TraceFile(options.trace.trace),
                                     [&](const replay::Done& done) { progress.show(done); });
      progress.end();
    }
    if (recorded.snapshots.empty() && recorded.samples.empty())
      throw trace::TraceError(options.trace.trace +
                              ": neither a snapshot nor a sample of resident memory was recorded");
    return run_on_trace(options.trace,
                        [&](const replay::Analysis& analysis) { print_resident(options, analysis, recorded); });
  });
}

}  // namespace heapprof::cli
