// A recording over time: live bytes, the call sites that hold them, resident memory. One input, four
// outputs: a plot for a terminal, csv, json, svg.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "analyzer/render/text_sink.h"


namespace heapprof::render {

/// What is to be shown. Times are nanoseconds since the start of the recording.
struct Timeline {
  std::string title;    ///< "Live heap of redis-server"
  std::string live = "live heap";  ///< what is live
  /// Label and text for the heads of pictures: {"Program", "redis-server --port 6379"}.
  std::vector<std::pair<std::string, std::string>> context;

  std::uint64_t start_ns = 0;           ///< where the time axis begins; not above the first sample
  std::uint64_t duration_ns = 0;        ///< where the time axis ends, from 0 as all times; at least the last sample

  std::vector<std::uint64_t> time_ns;   ///< of the samples, not decreasing
  std::vector<std::uint64_t> live_bytes;  ///< at each; as many as time_ns

  /// The highest moment since the sample before, for samples that are far apart: as many, or none.
  std::vector<std::uint64_t> highest_bytes;

  /// The exact highest moment of all, which may lie between samples. Without it the highest sample is taken.
  struct Peak {
    std::uint64_t time_ns = 0;
    std::uint64_t bytes = 0;
  };
  std::optional<Peak> peak;
  bool peak_is_moment = false;  ///< `peak` is a moment that the user asked for, and is called so

  /// Resident memory, at times of its own.
  struct Resident {
    std::uint64_t time_ns = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Resident> resident;       ///< times not decreasing; may be empty

  /// A call site with what it holds at each sample. Sites hold different bytes: their sum is at most the
  /// live bytes; what is left is drawn as "other".
  struct Site {
    std::string label;                  ///< function, as the legend has it
    std::string detail;                 ///< more of the stack, file and line: for tooltips and tables
    std::string module;
    std::vector<std::uint64_t> bytes;   ///< as many as time_ns
    std::uint64_t peak_bytes = 0;       ///< at the peak
  };
  std::vector<Site> sites;              ///< largest at the peak first

  /// A stretch of time.
  struct Span {
    std::uint64_t from_ns = 0;
    std::uint64_t to_ns = 0;
  };
  std::vector<Span> gaps;               ///< idle, no events: live bytes stay what they were; ascending, disjoint
  std::vector<Span> unsampled;          ///< nothing is known of resident memory; ascending, disjoint; see find_gaps
  std::vector<Span> pauses;             ///< recording was paused: live bytes are a lower bound

  struct Mark {
    std::uint64_t time_ns = 0;
    std::string text;
  };
  std::vector<Mark> marks;              ///< set by the user
};

/// The stretches between neighbouring samples longer than `least_ns` (a program that is busy gives a sample
/// about every 10 ms), from `start_ns`, and the one after the last sample.
std::vector<Timeline::Span> find_gaps(const std::vector<std::uint64_t>& time_ns, std::uint64_t duration_ns,
                                      std::uint64_t least_ns, std::uint64_t start_ns = 0);

/// The peak given, else the first highest sample; {0, 0} without samples.
Timeline::Peak peak_of(const Timeline& timeline) noexcept;

/// "peak 7.00 KiB at 30.0 ms"; of a moment "live 7.00 KiB at 30.0 ms".
std::string peak_label(const Timeline& timeline);

/// "At the peak, 30.0 ms"; of a moment "At 30.0 ms".
std::string peak_moment(const Timeline& timeline);

struct PlotOptions {
  unsigned width = 80;    ///< columns, axis included; at least 40 are used
  unsigned height = 16;   ///< lines of the plot, without axis and legend; at least 4 are used
  bool unicode = true;    ///< false: nothing but ASCII (a locale that is not UTF-8)
  bool colour = false;    ///< ANSI colours
  unsigned sites = 8;     ///< lines of the table under the plot
};

/// Live bytes as an area (the highest of each column), resident memory as a dotted line, idle
/// times marked on the axis, then the call sites at the peak. Lines end in a line feed and have no trailing blanks.
void write_timeline_text(const Timeline& timeline, const PlotOptions& options, const TextSink& out);

/// A head line `time_ns,live_bytes,highest_bytes,rss_bytes,LABEL...`, then a line for each time that has a
/// sample of either kind (rss_bytes is empty where there is none; highest_bytes is live_bytes where nothing is
/// known). RFC 4180 with line feeds. Every sample, nothing rounded.
void write_timeline_csv(const Timeline& timeline, const TextSink& out);

/// {"title", "start_ns", "duration_ns", "peak": {"time_ns", "bytes"}, "samples": {"time_ns": [], "live_bytes": [],
///  "highest_bytes": []}, "rss": {"time_ns": [], "bytes": []}, "sites": [{"label", "detail", "module", "peak_bytes",
///  "bytes": []}], "gaps": [{"from_ns", "to_ns"}], "pauses": [...], "marks": [{"time_ns", "text"}]}. Every sample.
nlohmann::json timeline_json(const Timeline& timeline);

/// A picture of 400 columns, however long the recording: the highest and the lowest sample of each are kept.
/// The ten largest sites are drawn, the rest is one grey area. Self-contained; with JavaScript it tells the
/// values under the pointer. An address that ends in `#at=SECONDS` opens with that moment shown.
void write_timeline_svg(const Timeline& timeline, const TextSink& out);

}  // namespace heapprof::render
