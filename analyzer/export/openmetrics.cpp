#include "analyzer/export/openmetrics.h"

#include <cinttypes>
#include <cstdio>
#include <functional>
#include <optional>

#include "analyzer/render/utf8.h"

namespace heapprof::exporter {
namespace {

/// Prometheus truncates a floating-point number of seconds to milliseconds and refuses two values with one time.
/// Times with this distance stay different.
constexpr std::uint64_t kMinDistanceNs = 1'001'000;

std::string label(const char* name, const std::string& text) {
  std::string out = std::string(name) + "=\"";
  for (const char c : render::clean_utf8(text)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

class OpenMetricsWriter {
 public:
  OpenMetricsWriter(const model::Profile& profile, const render::Timeline& timeline, const std::string& program,
                    const render::TextSink& out)
      : profile_(profile), timeline_(timeline), out_(out),
        labels_(label("program", program) + "," + label("pid", std::to_string(profile.recording.pid))) {}

  using Value = std::function<std::optional<std::uint64_t>(std::size_t bucket)>;

  void family(const std::string& name, const char* type, bool bytes, const std::string& help) {
    out_("# TYPE " + name + " " + type + "\n" + (bytes ? "# UNIT " + name + " bytes\n" : "") + "# HELP " + name +
         " " + help + "\n");
  }
  void series(const std::string& name, const std::string& more_labels, const Value& value) {
    const std::string head = name + "{" + labels_ + more_labels + "} ";
    const std::vector<std::uint64_t>& times = timeline_.time_ns;
    struct Point {
      std::uint64_t time_ns;
      std::uint64_t value;
    };
    std::vector<Point> points;  // from the last, which is always written, to the first
    for (std::size_t i = times.size(); i-- > 0;) {
      if (!points.empty() && times[i] + kMinDistanceNs > points.back().time_ns) continue;
      const std::optional<std::uint64_t> figure = value(i);
      if (figure) points.push_back({times[i], *figure});
    }
    for (std::size_t i = points.size(); i-- > 0;)
      out_(head + std::to_string(points[i].value) + " " + time_of_day(points[i].time_ns) + "\n");
  }
  void point(const std::string& name, std::uint64_t value, std::uint64_t time_ns) {
    out_(name + "{" + labels_ + "} " + std::to_string(value) + " " + time_of_day(time_ns) + "\n");
  }

 private:
  std::string time_of_day(std::uint64_t time_ns) const {
    const std::uint64_t ns = profile_.recording.start_realtime_ns + time_ns;
    char text[40];
    std::snprintf(text, sizeof text, "%" PRIu64 ".%09" PRIu64, ns / 1'000'000'000, ns % 1'000'000'000);
    return text;
  }

  const model::Profile& profile_;
  const render::Timeline& timeline_;
  const render::TextSink& out_;
  std::string labels_;
};

}  // namespace

void write_openmetrics(const model::Profile& profile, const render::Timeline& timeline, const std::string& program,
                       const render::TextSink& out) {
  OpenMetricsWriter writer(profile, timeline, program, out);
  const std::vector<model::Timeline::Bucket>& buckets = profile.timeline.buckets;
  const std::string what = profile.kind == model::Kind::kHeap   ? "heap blocks"
                           : profile.kind == model::Kind::kMmap ? "mappings"
                                                                : "heap blocks and mappings, each byte once,";
  writer.family("heapprof_live_bytes", "gauge", true, "Bytes of " + what + " that were live.");
  writer.series("heapprof_live_bytes", "", [&](std::size_t i) { return buckets[i].last_bytes; });
  writer.family("heapprof_live_blocks", "gauge", false, "How many " + what + " were live.");
  writer.series("heapprof_live_blocks", "", [&](std::size_t i) { return buckets[i].last_blocks; });
  writer.family("heapprof_peak_bytes", "gauge", true,
                "Maximum of live bytes of " + what + ", at the time of the peak.");
  writer.point("heapprof_peak_bytes", profile.totals.peak_bytes, profile.peak_time_ns);
  writer.family("heapprof_mapped_bytes", "gauge", true, "Bytes of live mappings of the program.");
  writer.series("heapprof_mapped_bytes", "", [&](std::size_t i) { return buckets[i].mapped_bytes; });
  writer.family("heapprof_resident_bytes", "gauge", true, "Resident memory of the process, where it was sampled.");
  writer.series("heapprof_resident_bytes", "", [&](std::size_t i) -> std::optional<std::uint64_t> {
    if (buckets[i].rss_bytes == 0) return std::nullopt;
    return buckets[i].rss_bytes;
  });
  std::vector<std::uint64_t> allocations, bytes;
  for (const model::Timeline::Bucket& bucket : buckets) {
    allocations.push_back((allocations.empty() ? 0 : allocations.back()) + bucket.allocations);
    bytes.push_back((bytes.empty() ? 0 : bytes.back()) + bucket.allocated_bytes);
  }
  writer.family("heapprof_allocations", "counter", false, "Number of allocations.");
  writer.series("heapprof_allocations_total", "", [&](std::size_t i) { return allocations[i]; });
  writer.family("heapprof_allocated_bytes", "counter", true, "Bytes allocated.");
  writer.series("heapprof_allocated_bytes_total", "", [&](std::size_t i) { return bytes[i]; });
  writer.family("heapprof_site_live_bytes", "gauge", true, "Live bytes of the largest call sites.");
  for (std::size_t k = 0; k < timeline.sites.size(); ++k) {
    const render::Timeline::Site& site = timeline.sites[k];
    writer.series("heapprof_site_live_bytes",
                  "," + label("site", std::to_string(k + 1)) + "," + label("function", site.label) + "," +
                      label("location", site.detail) + "," + label("module", site.module),
                  [&](std::size_t i) { return site.bytes[i]; });
  }
  out("# EOF\n");
}

}  // namespace heapprof::exporter
