// Writes the SVG picture of a timeline. For timeline_svg.cpp, timeline_legend.cpp and timeline_data.cpp only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/render/axis.h"
#include "analyzer/render/svg_text.h"
#include "analyzer/render/timeline.h"
#include "analyzer/render/timeline_points.h"

namespace heapprof::render {

class TimelinePicture : private SvgText {
 public:
  explicit TimelinePicture(const Timeline& timeline);

  void write(const TextSink& out);

 private:
  // In pixels.
  static constexpr double kLeft = 76;
  static constexpr double kRight = 846;
  static constexpr double kTop = 108;
  static constexpr double kBottom = 586;
  static constexpr double kLegendLeft = 884;
  static constexpr double kLegendRight = 1180;
  static constexpr double kCharWidth = 7;
  static constexpr double kRailHeight = 4;  // of the idle times below the axis

  double x_of(std::uint64_t time) const {
    const double since = static_cast<double>(time) - static_cast<double>(start_);
    return kLeft + (kRight - kLeft) * since / static_cast<double>(end_ - start_);
  }
  double y_of(std::uint64_t bytes) const { return y_in(bytes, kTop, bottom_, axis_.top); }
  static double y_in(std::uint64_t bytes, double top, double bottom, std::uint64_t largest) {
    return bottom - (bottom - top) * std::min(1.0, static_cast<double>(bytes) / static_cast<double>(largest));
  }

  // timeline_svg.cpp
  void head();
  void byte_ticks(const Axis& axis, double top, double bottom);
  void axes();
  void areas();
  /// Idle times below the axis, pauses across the picture.
  void spans();
  /// The line of resident memory, interrupted where there are no samples.
  void resident(double top, double bottom, std::uint64_t largest);
  /// Resident memory on a scale of its own.
  void resident_strip();
  void marks();
  void peak();

  // timeline_legend.cpp
  void legend();
  void legend_row(double y, const std::string& swatch, std::string_view name, std::string_view detail,
                  std::uint64_t bytes, const std::string& key);
  static std::string swatch(const std::string& style, double y, double height = 12);
  /// Resident memory at `time`, by the last sample; nullopt: that sample is too far from `time`.
  std::optional<std::uint64_t> resident_at(std::uint64_t time) const;

  // timeline_data.cpp
  /// The elements that the script moves.
  void pointer();
  /// The points as JSON, one array per property. Numbers above 2^53 lose digits that no label shows.
  void data();

  const Timeline& timeline_;
  const Timeline::Peak peak_;
  std::uint64_t start_;
  std::uint64_t end_;
  std::uint64_t max_resident_ = 0;
  std::size_t site_count_ = 0;
  bool own_strip_ = false;  ///< resident memory has a scale of its own
  double bottom_ = kBottom;
  Axis axis_;
  std::vector<TimelinePoint> points_;
  std::vector<unsigned> hues_;
};

}  // namespace heapprof::render
