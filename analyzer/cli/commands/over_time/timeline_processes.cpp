// heapprof timeline of several recordings: the live bytes of each process, or program, on the one clock of all; the
// peak of their sum, and what it was made of.
//
// Every process has live bytes at the ends of the buckets of its own timeline, and between them the last value is
// drawn. The peak of the sum and what the processes had then are exact (recording_set.h).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/commands/over_time/timeline.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/recording_set.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/processes_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

/// The live bytes of one process at known times, ascending; 0 before the first and after `end_ns`.
struct LiveAtTimes {
  std::vector<std::uint64_t> ns;
  std::vector<std::uint64_t> bytes;
  std::uint64_t end_ns = 0;

  std::uint64_t at(std::uint64_t moment_ns) const {
    if (moment_ns > end_ns) return 0;
    const auto after = std::ranges::upper_bound(ns, moment_ns);
    return after == ns.begin() ? 0 : bytes[static_cast<std::size_t>(after - ns.begin()) - 1];
  }
};

LiveAtTimes live_of(const model::Profile& profile, std::uint64_t start_ns) {
  LiveAtTimes live;
  const std::vector<model::Timeline::Bucket>& buckets = profile.timeline.buckets;
  live.end_ns = start_ns + profile.end_ns();
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    live.ns.push_back(i + 1 < buckets.size() ? start_ns + buckets[i + 1].start_ns : live.end_ns);
    live.bytes.push_back(buckets[i].last_bytes);
  }
  return live;
}

/// The times that are drawn: parts of equal length, and the peak.
std::vector<std::uint64_t> times_of(std::uint64_t begin_ns, std::uint64_t end_ns,
                                    const std::optional<SumPeakOfSet>& peak) {
  constexpr std::uint64_t kParts = model::Timeline::kMaxBuckets;
  std::vector<std::uint64_t> times;
  for (std::uint64_t part = 1; part <= kParts; ++part)
    times.push_back(begin_ns + static_cast<std::uint64_t>(static_cast<double>(end_ns - begin_ns) *
                                                          static_cast<double>(part) / kParts));
  times.back() = end_ns;
  if (peak) times.insert(std::ranges::lower_bound(times, peak->ns), peak->ns);
  return times;
}

struct Series {
  render::Timeline::Site site;
  std::uint64_t own_peak_bytes = 0;
};

/// One for each process, or for each program.
std::vector<Series> series_of(const TimelineOptions& options, const MergedRecordings& merged,
                              const std::vector<LiveAtTimes>& live, const std::vector<std::uint64_t>& times,
                              const std::optional<SumPeakOfSet>& peak) {
  std::vector<Series> all;
  const std::vector<model::ProcessFigures>& processes = merged.profile.together->processes;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const model::ProcessFigures& process = processes[i];
    const std::size_t member = merged.members[i];
    const std::string program = base_name(process.program);
    const bool by_program = options.by == views::By::kProgram;
    auto at =
        by_program ? std::ranges::find(all, program, [](const Series& one) { return one.site.label; }) : all.end();
    if (at == all.end()) {
      Series& one = all.emplace_back();
      one.site.label = by_program ? program : program + " " + std::to_string(process.pid);
      one.site.detail = by_program ? process.program : render::clip_utf8(process.command, 200);
      one.site.module = program;
      one.site.name = by_program ? program : program + "." + std::to_string(process.pid);
      one.site.bytes.assign(times.size(), 0);
      at = all.end() - 1;
    }
    at->own_peak_bytes += process.peak_bytes;
    if (peak) at->site.peak_bytes += peak->live_bytes[member];
    for (std::size_t time = 0; time < times.size(); ++time)
      at->site.bytes[time] +=
          peak && times[time] == peak->ns ? peak->live_bytes[member] : live[member].at(times[time]);
  }
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const Series& one) { return std::pair(one.site.peak_bytes, one.own_peak_bytes); });
  return all;
}

nlohmann::json sum_peak_json(const SumPeakOfSet& peak, const MergedRecordings& merged) {
  nlohmann::json processes = nlohmann::json::array();
  for (const std::size_t member : merged.members) processes.push_back(peak.live_bytes[member]);
  return {{"time_ns", peak.ns},
          {"bytes", peak.bytes},
          {"at_most_bytes", peak.at_most_bytes},
          {"live_bytes", std::move(processes)}};
}

}  // namespace

int run_timeline_of_processes(const TimelineOptions& options) {
  TraceOptions trace = for_costs(options.trace);
  trace.selection.with_timeline = true;
  std::vector<processes::LiveBounds> bounds;
  std::vector<LiveAtTimes> live;
  const auto keep = [&](std::size_t member, const replay::Analysis& analysis, std::uint64_t start_ns) {
    bounds.resize(std::max(bounds.size(), member + 1));
    live.resize(bounds.size());
    bounds[member] = bounds_of(analysis.profile(), start_ns);
    live[member] = live_of(analysis.profile(), start_ns);
  };
  return run_on_recordings(
      trace,
      [&](const RecordingSet& set, const MergedRecordings& merged) {
        const model::Profile& profile = merged.profile;
        bounds.resize(set.members().size());
        live.resize(bounds.size());
        const std::optional<SumPeakOfSet> peak = find_sum_peak(set, options.trace, bounds);
        const std::string name = render::clean_utf8(set.name());
        render::Timeline timeline;
        timeline.live = profile.kind == model::Kind::kHeap   ? "live heap"
                        : profile.kind == model::Kind::kMmap ? "live mappings"
                                                             : "live heap and mappings";
        timeline.title = "L" + timeline.live.substr(1) + " of the processes of " + name;
        std::string peak_text = "no byte was live";
        if (peak) {
          peak_text = render::human_bytes(peak->bytes) + " in all processes at " + render::human_time(peak->ns);
          if (peak->at_most_bytes > peak->bytes)
            peak_text += ", or elsewhere at most " + render::human_bytes(peak->at_most_bytes);
        }
        timeline.context = {{"Recorded", sentence_of(profile)}, {"Peak", peak_text}};
        if (!profile.selection_text.empty()) timeline.context.push_back({"Only", profile.selection_text});
        if (!used_project_file.empty()) timeline.context.push_back({"Settings", used_project_file});
        for (const std::string& note : profile.together->notes) timeline.context.push_back({"Note", note});
        timeline.start_ns = profile.begin_ns();
        timeline.duration_ns = profile.end_ns();
        timeline.time_ns = times_of(timeline.start_ns, timeline.duration_ns, peak);
        timeline.live_bytes.assign(timeline.time_ns.size(), 0);
        for (const Series& one : series_of(options, merged, live, timeline.time_ns, peak)) {
          for (std::size_t i = 0; i < one.site.bytes.size(); ++i) timeline.live_bytes[i] += one.site.bytes[i];
          if (timeline.sites.size() < options.sites && one.own_peak_bytes != 0) timeline.sites.push_back(one.site);
        }
        if (peak) timeline.peak = render::Timeline::Peak{peak->ns, peak->bytes};
        nlohmann::json more;
        if (options.format == TimelineOptions::Format::kJson) {
          Json processes;
          add_processes(processes, *profile.together);
          more = processes;
          more["sum_peak"] = peak ? sum_peak_json(*peak, merged) : nlohmann::json(nullptr);
        }
        write_timeline(options, profile, name, timeline, more);
      },
      [&](std::size_t member, const replay::Analysis& analysis, std::uint64_t start_ns) {
        keep(member, analysis, start_ns);
      });
}

}  // namespace heapprof::cli
