#include "analyzer/render/timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

const std::string& name_of(const Timeline::Site& site) noexcept { return site.name.empty() ? site.label : site.name; }

}  // namespace

std::vector<Timeline::Span> spans_without_samples(const std::vector<std::uint64_t>& time_ns,
                                                  std::uint64_t duration_ns, std::uint64_t min_ns,
                                                  std::uint64_t start_ns) {
  std::vector<Timeline::Span> spans;
  std::uint64_t last = start_ns;
  const auto sample_at = [&](std::uint64_t time) {
    if (time > last && time - last > min_ns) spans.push_back({last, time});
    last = std::max(last, time);
  };
  for (const std::uint64_t time : time_ns) sample_at(time);
  sample_at(duration_ns);
  return spans;
}

Timeline::Peak peak_of(const Timeline& timeline) noexcept {
  if (timeline.peak) return *timeline.peak;
  const auto& values = timeline.highest_bytes.empty() ? timeline.live_bytes : timeline.highest_bytes;
  const auto highest = std::max_element(values.begin(), values.end());
  if (highest == values.end()) return {};
  return {timeline.time_ns[static_cast<std::size_t>(highest - values.begin())], *highest};
}

std::string peak_label(const Timeline& timeline) {
  const Timeline::Peak peak = peak_of(timeline);
  if (peak.bytes == 0 && !timeline.peak_is_moment) return "no byte was live";
  return (timeline.peak_is_moment ? "live " : "peak ") + human_bytes(peak.bytes) + " at " + human_time(peak.time_ns);
}

std::string peak_moment(const Timeline& timeline) {
  const Timeline::Peak peak = peak_of(timeline);
  if (peak.bytes == 0 && !timeline.peak_is_moment) return "No byte was live";
  return (timeline.peak_is_moment ? "At " : "At the peak, ") + human_time(peak.time_ns);
}

void write_timeline_csv(const Timeline& timeline, const TextSink& out) {
  std::string line = "time_ns," + timeline.live_field + ",highest_bytes,rss_bytes";
  for (const auto& site : timeline.sites) {
    line += ',';
    append_csv(line, clean_utf8(name_of(site)));
  }
  line += '\n';
  out(line);

  // Between samples, live bytes and sites have the values of the sample before.
  const auto& times = timeline.time_ns;
  std::size_t next = 0;
  std::size_t next_resident = 0;
  while (next < times.size() || next_resident < timeline.resident.size()) {
    const bool has_sample = next < times.size() && (next_resident == timeline.resident.size() ||
                                                    times[next] <= timeline.resident[next_resident].time_ns);
    const std::uint64_t time = has_sample ? times[next] : timeline.resident[next_resident].time_ns;
    const bool has_resident =
        next_resident < timeline.resident.size() && timeline.resident[next_resident].time_ns == time;
    next += has_sample;
    line = std::to_string(time) + ',';
    const std::uint64_t live = next == 0 ? 0 : timeline.live_bytes[next - 1];
    const bool has_highest = has_sample && !timeline.highest_bytes.empty();
    line += std::to_string(live) + ',';
    line += std::to_string(has_highest ? timeline.highest_bytes[next - 1] : live) + ',';
    if (has_resident) line += std::to_string(timeline.resident[next_resident++].bytes);
    for (const auto& site : timeline.sites) {
      line += ',';
      line += next == 0 ? "0" : std::to_string(site.bytes[next - 1]);
    }
    line += '\n';
    out(line);
  }
}

nlohmann::json timeline_json(const Timeline& timeline) {
  using nlohmann::json;
  const auto spans = [](const std::vector<Timeline::Span>& list) {
    json array = json::array();
    for (const auto& span : list) array.push_back({{"from_ns", span.from_ns}, {"to_ns", span.to_ns}});
    return array;
  };
  json resident_times = json::array();
  json resident_bytes = json::array();
  for (const auto& sample : timeline.resident) {
    resident_times.push_back(sample.time_ns);
    resident_bytes.push_back(sample.bytes);
  }
  json sites = json::array();
  for (const auto& site : timeline.sites) {
    sites.push_back({{"label", clean_utf8(site.label)},
                     {"name", clean_utf8(name_of(site))},
                     {"detail", clean_utf8(site.detail)},
                     {"module", clean_utf8(site.module)},
                     {"peak_bytes", site.peak_bytes},
                     {"bytes", site.bytes}});
  }
  json marks = json::array();
  for (const auto& mark : timeline.marks)
    marks.push_back({{"time_ns", mark.time_ns}, {"text", clean_utf8(mark.text)}});
  json samples = {{"time_ns", timeline.time_ns},
                  {timeline.live_field, timeline.live_bytes},
                  {"highest_bytes", timeline.highest_bytes.empty() ? timeline.live_bytes : timeline.highest_bytes}};
  if (!timeline.mapped_bytes.empty()) samples["mapped_bytes"] = timeline.mapped_bytes;
  const Timeline::Peak peak = peak_of(timeline);
  return {{"title", clean_utf8(timeline.title)},
          {"start_ns", timeline.start_ns},
          {"duration_ns", timeline.duration_ns},
          {"peak", {{"time_ns", peak.time_ns}, {"bytes", peak.bytes}}},
          {"samples", std::move(samples)},
          {"rss", {{"time_ns", std::move(resident_times)}, {"bytes", std::move(resident_bytes)}}},
          {"sites", std::move(sites)},
          {"idle", spans(timeline.idle)},
          {"gaps", spans(timeline.idle)},  // the old name of "idle", for one release
          {"pauses", spans(timeline.pauses)},
          {"marks", std::move(marks)}};
}

}  // namespace heapprof::render
