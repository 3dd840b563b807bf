// A recording over time: live bytes by call site, resident memory, idle times, marks. One input, four outputs: a plot
// for a terminal, CSV, JSON, SVG.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analyzer/render/text_sink.h"

namespace heapprof::render {

/// Times are nanoseconds since the start of the recording.
struct Timeline {
  std::string title;                      ///< "Live heap of redis-server"
  std::string live = "live heap";         ///< what live_bytes are
  std::string live_field = "live_bytes";  ///< their name in CSV and JSON
  /// Label and text of the lines under the title: {"Program", "redis-server --port 6379"}.
  std::vector<std::pair<std::string, std::string>> context;

  std::uint64_t start_ns = 0;     ///< start of the time axis; not above the first sample
  std::uint64_t duration_ns = 0;  ///< end of the time axis; not below the last sample

  std::vector<std::uint64_t> time_ns;     ///< of the samples, not decreasing
  std::vector<std::uint64_t> live_bytes;  ///< at each; as many as time_ns

  /// The maximum of live bytes since the sample before: as many as time_ns, or empty.
  std::vector<std::uint64_t> highest_bytes;

  /// Live mappings at each: as many as time_ns, or empty. In JSON only.
  std::vector<std::uint64_t> mapped_bytes;

  /// The exact peak, which may be between two samples. Without it, the peak is the highest sample.
  struct Peak {
    std::uint64_t time_ns = 0;
    std::uint64_t bytes = 0;
  };
  std::optional<Peak> peak;
  bool peak_is_moment = false;  ///< `peak` is the moment of --live-at, and is not called a peak

  /// Resident memory, which has samples of its own.
  struct Resident {
    std::uint64_t time_ns = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Resident> resident;  ///< times not decreasing; may be empty

  /// A call site and its live bytes at each sample. No byte belongs to two sites. Bytes that belong to no site are
  /// drawn as "everything else".
  struct Site {
    std::string label;   ///< function, for the legend
    std::string detail;  ///< file and line, or a caller: for tooltips and tables
    std::string module;
    std::vector<std::uint64_t> bytes;  ///< as many as time_ns
    std::uint64_t peak_bytes = 0;      ///< at the peak
    std::string name{};                ///< in CSV and JSON; empty: the label
  };
  std::vector<Site> sites;  ///< largest at the peak first

  /// A range of time.
  struct Span {
    std::uint64_t from_ns = 0;
    std::uint64_t to_ns = 0;
  };
  std::vector<Span> idle;       ///< no events, so live bytes do not change; ascending, disjoint
  std::vector<Span> unsampled;  ///< no samples of resident memory; ascending, disjoint; see spans_without_samples()
  std::vector<Span> pauses;     ///< recording was paused: live bytes are a lower bound

  struct Mark {
    std::uint64_t time_ns = 0;
    std::string text;
  };
  std::vector<Mark> marks;  ///< set by the user
};

/// The ranges of time without a sample that are longer than `min_ns`, from `start_ns` to `duration_ns`. (While a
/// program allocates, resident memory is sampled about every 10 ms.)
std::vector<Timeline::Span> spans_without_samples(const std::vector<std::uint64_t>& time_ns,
                                                  std::uint64_t duration_ns, std::uint64_t min_ns,
                                                  std::uint64_t start_ns = 0);

/// The given peak, else the first of the highest samples; {0, 0} without samples.
Timeline::Peak peak_of(const Timeline& timeline) noexcept;

/// "peak 7.00 KiB at 30.0 ms"; for a moment "live 7.00 KiB at 30.0 ms"; for a peak of 0 bytes "no byte was live".
std::string peak_label(const Timeline& timeline);

/// "At the peak, 30.0 ms"; for a moment "At 30.0 ms"; for a peak of 0 bytes "No byte was live".
std::string peak_moment(const Timeline& timeline);

struct PlotOptions {
  unsigned width = 80;      ///< columns, axis included; at least 40 are used
  unsigned height = 16;     ///< lines of the plot, without axis and legend; at least 4 are used
  bool unicode = true;      ///< false: ASCII only
  bool colour = false;      ///< ANSI colours
  unsigned sites = 8;       ///< lines of the table under the plot
  bool full_names = false;  ///< names in that table are neither shortened nor clipped
};

/// Writes live bytes as an area (the maximum of each column), resident memory as a dotted line, idle times as marks
/// on the axis, and the call sites at the peak. Lines end in a line feed and have no trailing blanks.
void write_timeline_text(const Timeline& timeline, const PlotOptions& options, const TextSink& out);

/// Writes a header line `time_ns,live_bytes,highest_bytes,rss_bytes,NAME...`, then a line for each time that has a
/// sample of either kind. rss_bytes is empty where there is no sample of it; highest_bytes is live_bytes where it is
/// unknown. RFC 4180 with line feeds.
void write_timeline_csv(const Timeline& timeline, const TextSink& out);

/// {"title", "start_ns", "duration_ns", "peak": {"time_ns", "bytes"}, "samples": {"time_ns": [], "live_bytes": [],
///  "highest_bytes": [], "mapped_bytes"?: []}, "rss": {"time_ns": [], "bytes": []}, "sites": [{"label", "detail",
///  "module", "peak_bytes", "bytes": []}], "idle": [{"from_ns", "to_ns"}], "pauses": [...],
///  "marks": [{"time_ns", "text"}]}.
nlohmann::json timeline_json(const Timeline& timeline);

/// Writes a self-contained picture. It has 400 columns, each with its lowest and its highest sample. The ten largest
/// call sites have areas of their own; the others are one grey area. With JavaScript it shows the values under the
/// pointer. An address that ends in `#at=SECONDS` opens the picture with the pointer at that time.
void write_timeline_svg(const Timeline& timeline, const TextSink& out);

}  // namespace heapprof::render
