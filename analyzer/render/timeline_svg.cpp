// The picture is drawn here, completely: viewers without JavaScript miss only the values under the pointer
// (assets/timeline.js, from the points that stand in the file as JSON).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/render/escape.h"
#include "analyzer/render/palette.h"
#include "analyzer/render/render_assets.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/timeline.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

// Everything in pixels of the picture.
constexpr double kWidth = 1200;
constexpr double kHeight = 640;
constexpr double kLeft = 76;
constexpr double kRight = 846;
constexpr double kTop = 108;
constexpr double kBottom = 586;
constexpr double kStripHeight = 78;  // of resident memory's own strip
constexpr double kStripGap = 34;
constexpr double kLegendLeft = 884;
constexpr double kLegendRight = 1180;
constexpr double kLegendRow = 37;
constexpr double kLegendLine = 20;  // of a row without a second line
constexpr double kCharWidth = 7;
constexpr std::size_t kSites = 10;
constexpr std::size_t kColumns = 400;
constexpr double kRailHeight = 4;  // below the axis: idle stretches

/// Resident memory beyond this many times the peak gets a strip of its own: it would flatten the heap.
constexpr std::uint64_t kMostResidentShare = 4;

/// One moment of the picture.
struct Point {
  std::uint64_t time_ns;
  std::uint64_t live;
  std::uint64_t highest;  // since the point before
  std::vector<std::uint64_t> sites;
};

void append_number(std::string& out, double value) {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%.1f", value);
  std::string_view digits(text, static_cast<std::size_t>(length));
  if (digits.ends_with(".0")) digits.remove_suffix(2);
  out += digits;
}

/// Indices of the lowest and highest of each column's values, ascending, first and last included.
template <typename Time, typename Value>
std::vector<std::size_t> envelope(std::size_t count, std::uint64_t start, std::uint64_t end, Time time,
                                  Value value) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < count;) {
    const auto column = [&](std::size_t k) {
      return static_cast<std::size_t>(static_cast<double>(time(k) - start) / static_cast<double>(end - start) *
                                      kColumns);
    };
    const std::size_t here = column(i);
    std::size_t low = i;
    std::size_t high = i;
    std::size_t k = i;
    for (; k < count && column(k) == here; ++k) {
      if (value(k) < value(low)) low = k;
      if (value(k) > value(high)) high = k;
    }
    for (const std::size_t pick : {i == 0 ? i : std::min(low, high), std::min(low, high), std::max(low, high),
                                   k == count ? k - 1 : std::max(low, high)})
      if (kept.empty() || pick > kept.back()) kept.push_back(pick);
    i = k;
  }
  return kept;
}

class Picture {
 public:
  explicit Picture(const Timeline& timeline) : timeline_(timeline), peak_(peak_of(timeline)) {
    start_ = timeline.start_ns;
    end_ = std::max(start_ + 1, timeline.duration_ns);
    for (const std::uint64_t time : timeline.time_ns) end_ = std::max(end_, time);
    for (const auto& sample : timeline.resident) {
      end_ = std::max(end_, sample.time_ns);
      most_resident_ = std::max(most_resident_, sample.bytes);
    }
    site_count_ = std::min(timeline.sites.size(), kSites);
    own_strip_ = most_resident_ > 0 && most_resident_ / kMostResidentShare > peak_.bytes;
    bottom_ = own_strip_ ? kBottom - kStripHeight - kStripGap : kBottom;
    // Head room for the peak's label.
    axis_ = byte_axis(std::max(peak_.bytes + peak_.bytes / 12, own_strip_ ? 0 : most_resident_), own_strip_ ? 6 : 7);
    make_points();
    std::vector<std::string> labels;
    for (std::size_t i = 0; i < site_count_; ++i)
      labels.push_back(timeline.sites[i].label + '\n' + timeline.sites[i].module);
    hues_ = hues_of(labels);
  }

  void write(const TextSink& out) {
    head();
    axes();
    areas();
    spans();
    if (own_strip_) strip();
    else resident(kTop, bottom_, axis_.top);
    marks();
    peak();
    legend();
    if (timeline_.time_ns.empty())
      label((kLeft + kRight) / 2, kHeight / 2, "class=\"muted\" text-anchor=\"middle\"",
            "No samples: nothing was recorded.");
    else if (peak_.bytes == 0)
      label((kLeft + kRight) / 2, (kTop + bottom_) / 2, "class=\"muted\" text-anchor=\"middle\"",
            "Nothing to show: no byte was live.");
    pointer();
    out(text_);
    text_.clear();
    data();
    out(text_);
    out("<script><![CDATA[\n");
    out(assets::kTimelineJs);
    out("]]></script>\n</svg>\n");
  }

 private:
  double x_of(std::uint64_t time) const {
    const double since = static_cast<double>(time) - static_cast<double>(start_);
    return kLeft + (kRight - kLeft) * since / static_cast<double>(end_ - start_);
  }
  double y_of(std::uint64_t bytes) const { return y_in(bytes, kTop, bottom_, axis_.top); }
  static double y_in(std::uint64_t bytes, double top, double bottom, std::uint64_t largest) {
    return bottom - (bottom - top) * std::min(1.0, static_cast<double>(bytes) / static_cast<double>(largest));
  }

  /// Samples thinned, the peak put in, and live bytes held to the end of each gap.
  void make_points() {
    const auto& times = timeline_.time_ns;
    const auto& highest = timeline_.highest_bytes.empty() ? timeline_.live_bytes : timeline_.highest_bytes;
    const auto kept = envelope(times.size(), start_, end_, [&](std::size_t i) { return times[i]; },
                               [&](std::size_t i) { return highest[i]; });
    const auto point_at = [&](std::size_t sample) {
      Point point{times[sample], timeline_.live_bytes[sample], highest[sample], {}};
      for (std::size_t site = 0; site < site_count_; ++site)
        point.sites.push_back(timeline_.sites[site].bytes[sample]);
      return point;
    };
    for (const std::size_t sample : kept) points_.push_back(point_at(sample));
    if (peak_.bytes > 0) {
      Point point{peak_.time_ns, peak_.bytes, peak_.bytes, {}};
      for (std::size_t site = 0; site < site_count_; ++site) point.sites.push_back(timeline_.sites[site].peak_bytes);
      const auto at = std::lower_bound(points_.begin(), points_.end(), peak_.time_ns,
                                       [](const Point& p, std::uint64_t time) { return p.time_ns < time; });
      if (at == points_.end() || at->time_ns != peak_.time_ns) points_.insert(at, std::move(point));
    }
    for (const auto& gap : timeline_.gaps) {
      const auto after = std::lower_bound(points_.begin(), points_.end(), gap.to_ns,
                                          [](const Point& p, std::uint64_t time) { return p.time_ns < time; });
      if (after != points_.end() && after->time_ns == gap.to_ns) continue;
      // The last sample may have been thinned out. It may lie before the gap, in which nothing changes.
      const auto last = std::upper_bound(times.begin(), times.end(), gap.to_ns);
      if (last == times.begin()) continue;
      Point held = point_at(static_cast<std::size_t>(std::distance(times.begin(), last)) - 1);
      if (held.time_ns < gap.to_ns) held.highest = held.live;
      held.time_ns = gap.to_ns;
      points_.insert(after, std::move(held));
    }
  }

  void head() {
    text_ += "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n"
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"heapprof-timeline\"";
    attribute("width", kWidth);
    attribute("height", kHeight);
    text_ += " viewBox=\"0 0 ";
    append_number(text_, kWidth);
    text_ += ' ';
    append_number(text_, kHeight);
    text_ += "\">\n<title>" + xml(clean_utf8(timeline_.title)) + "</title>\n<style><![CDATA[\n";
    text_ += assets::kTimelineCss;
    for (const bool dark : {false, true}) {
      if (dark) text_ += "@media (prefers-color-scheme: dark) {\n";
      for (std::size_t i = 0; i < site_count_; ++i)
        text_ += ".site" + std::to_string(i) + " { fill: " + area_colour(hues_[i], dark) + "; }\n";
      text_ += ".other { fill: " + area_colour(kGrey, dark) + "; }\n";
      if (dark) text_ += "}\n";
    }
    text_ += "]]></style>\n"
             "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
    text_ +=
        "<text class=\"title\" x=\"24\" y=\"38\">" + xml(clip_utf8(clean_utf8(timeline_.title), 90)) + "</text>\n";
    std::string line;
    for (const auto& [label, value] : timeline_.context) {
      if (!line.empty()) line += "   \xc2\xb7   ";
      line += label.empty() ? clean_utf8(value) : clean_utf8(label) + ": " + clean_utf8(value);
    }
    text_ += "<text class=\"muted\" x=\"24\" y=\"61\">" + xml(clip_utf8(line, 170)) + "</text>\n";
  }

  void attribute(const char* name, double value) {
    text_.append(" ").append(name).append("=\"");
    append_number(text_, value);
    text_ += '"';
  }

  void rule(const char* style, double x1, double y1, double x2, double y2) {
    text_.append("<path class=\"").append(style).append("\" d=\"M");
    append_number(text_, x1);
    text_ += ' ';
    append_number(text_, y1);
    text_ += 'L';
    append_number(text_, x2);
    text_ += ' ';
    append_number(text_, y2);
    text_ += "\"/>\n";
  }

  /// `label` is clean; `attributes` are ours.
  void label(double x, double y, std::string_view attributes, std::string_view label) {
    text_ += "<text x=\"";
    append_number(text_, x);
    text_ += "\" y=\"";
    append_number(text_, y);
    text_.append("\" ").append(attributes).append(">");
    append_xml(text_, label);
    text_ += "</text>\n";
  }

  void byte_ticks(const Axis& axis, double top, double bottom) {
    for (const std::uint64_t tick : axis.ticks) {
      const double y = y_in(tick, top, bottom, axis.top);
      rule(tick == 0 ? "base" : "grid", kLeft, y, kRight, y);
      label(kLeft - 10, y + 4, "class=\"muted\" text-anchor=\"end\"", byte_tick_label(tick));
    }
  }

  void axes() {
    byte_ticks(axis_, kTop, bottom_);
    const Axis times = time_axis(end_, 8, start_);
    for (const std::uint64_t tick : times.ticks) {
      const double x = x_of(tick);
      rule("base", x, bottom_, x, bottom_ + 5);
      if (own_strip_) rule("base", x, kBottom, x, kBottom + 5);
      label(x, kBottom + 21, "class=\"muted\" text-anchor=\"middle\"", time_tick_label(tick, times));
    }
  }

  void areas() {
    if (points_.empty()) return;
    text_ += "<g class=\"areas\">\n";
    std::vector<std::uint64_t> below(points_.size());
    const auto area = [&](const std::string& style, auto&& value) {
      text_ += "<path class=\"" + style + "\" d=\"M";
      const auto vertex = [&, first = true](double x, double y) mutable {
        if (!first) text_ += 'L';
        first = false;
        append_number(text_, x);
        text_ += ' ';
        append_number(text_, y);
      };
      auto next = vertex;
      for (std::size_t i = 0; i < points_.size(); ++i) next(x_of(points_[i].time_ns), y_of(below[i] + value(i)));
      for (std::size_t i = points_.size(); i-- > 0;) next(x_of(points_[i].time_ns), y_of(below[i]));
      text_ += "Z\"/>\n";
      for (std::size_t i = 0; i < points_.size(); ++i) below[i] += value(i);
    };
    for (std::size_t site = 0; site < site_count_; ++site)
      area("site" + std::to_string(site), [&](std::size_t i) { return points_[i].sites[site]; });
    area("other", [&](std::size_t i) { return points_[i].live > below[i] ? points_[i].live - below[i] : 0; });
    text_ += "</g>\n<path class=\"total\" d=\"";
    for (std::size_t i = 0; i < points_.size(); ++i) {
      text_ += i == 0 ? 'M' : 'L';
      append_number(text_, x_of(points_[i].time_ns));
      text_ += ' ';
      append_number(text_, y_of(points_[i].highest));
    }
    text_ += "\"/>\n";
  }

  /// Idle stretches below the axis, pauses across the picture. The legend has both, for those too narrow for a label.
  void spans() {
    const auto draw = [&](const std::vector<Timeline::Span>& list, const char* style, double least_apart,
                          double least_width, double top, double height, const char* name) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        // What is hardly apart is one.
        double left = x_of(list[i].from_ns);
        double right = x_of(list[i].to_ns);
        while (i + 1 < list.size() && x_of(list[i + 1].from_ns) - right < least_apart) right = x_of(list[++i].to_ns);
        right = std::max(right, left + least_width);
        if (right > kRight) left -= std::exchange(right, kRight) - kRight;
        const double width = right - left;
        if (width < 0.8) continue;
        text_.append("<rect class=\"").append(style).append("\" x=\"");
        append_number(text_, left);
        text_ += "\" y=\"";
        append_number(text_, top);
        text_ += "\" width=\"";
        append_number(text_, width);
        text_ += "\" height=\"";
        append_number(text_, height);
        text_ += "\"/>\n";
        if (name != nullptr && width > 70)
          label(left + width / 2, bottom_ - 12, "class=\"note\" text-anchor=\"middle\"", name);
      }
    };
    draw(timeline_.gaps, "idle", 1, 0, bottom_ + 1, kRailHeight, nullptr);
    draw(timeline_.pauses, "paused", 3, 1.5, kTop, bottom_ - kTop, "paused");
  }

  /// The line of resident memory, broken where there are no samples.
  void resident(double top, double bottom, std::uint64_t largest) {
    const auto& samples = timeline_.resident;
    if (samples.empty()) return;
    const auto kept = envelope(samples.size(), start_, end_, [&](std::size_t i) { return samples[i].time_ns; },
                               [&](std::size_t i) { return samples[i].bytes; });
    std::string path;
    std::string dots;      // the samples that stand alone, too small to be seen as a piece of a line
    std::string last_dot;  // the last sample, if a break precedes it
    std::size_t gap = 0;
    bool broken = true;
    for (const std::size_t i : kept) {
      while (gap < timeline_.unsampled.size() && timeline_.unsampled[gap].to_ns <= samples[i].time_ns) {
        ++gap;
        broken = true;
      }
      std::string place;
      append_number(place, x_of(samples[i].time_ns));
      place += ' ';
      append_number(place, y_in(samples[i].bytes, top, bottom, largest));
      path += (broken ? 'M' : 'L') + place;
      if (broken) {
        dots += last_dot;
        last_dot = 'M' + place + "h0";
        path += "h0";
      } else {
        last_dot.clear();
      }
      broken = false;
    }
    dots += last_dot;
    text_ += "<path class=\"halo\" d=\"" + path + "\"/>\n<path class=\"resident\" d=\"" + path + "\"/>\n";
    if (!dots.empty()) text_ += "<path class=\"resident alone\" d=\"" + dots + "\"/>\n";
  }

  void strip() {
    const double top = kBottom - kStripHeight;
    const Axis axis = byte_axis(most_resident_, 2);
    label(kLeft, top - 8, "class=\"muted\"", "Resident memory (RSS), on a scale of its own");
    byte_ticks(axis, top, kBottom);
    resident(top, kBottom, axis.top);
  }

  void marks() {
    // Names side by side where there is room, else a line higher, else only under the pointer.
    constexpr unsigned kRows = 2;
    double free_from[kRows] = {0, 0};
    for (const auto& mark : timeline_.marks) {
      const double x = x_of(mark.time_ns);
      const std::string name = clip_utf8(clean_utf8(mark.text), 28);
      const double width = kCharWidth * static_cast<double>(length_utf8(name)) + 10;
      text_ +=
          "<g class=\"mark\"><title>" + xml(human_time(mark.time_ns) + ": " + clean_utf8(mark.text)) + "</title>\n";
      rule("markline", x, kTop - 18, x, bottom_);
      for (unsigned row = 0; row < kRows; ++row) {
        if (free_from[row] > x) continue;
        const bool left = x + width > kRight;
        label(left ? x - 5 : x + 5, kTop - 8 - 13 * row,
              left ? "class=\"note\" text-anchor=\"end\"" : "class=\"note\"", name);
        free_from[row] = x + width;
        break;
      }
      text_ += "</g>\n";
    }
  }

  void peak() {
    if (peak_.bytes == 0) return;
    const double x = x_of(peak_.time_ns);
    const double y = y_of(peak_.bytes);
    rule("peakline", x, y, x, bottom_);
    text_ += "<circle class=\"peak\" r=\"4.5\" cx=\"";
    append_number(text_, x);
    text_ += "\" cy=\"";
    append_number(text_, y);
    text_ += "\"/>\n";
    const std::string words = peak_label(timeline_);
    const double half = kCharWidth * static_cast<double>(length_utf8(words)) / 2 + 8;
    const double middle = std::clamp(x, kLeft + half, kRight - half);
    label(middle, std::max(y - 12, kTop + 8), "class=\"peaklabel\" text-anchor=\"middle\"", words);
  }

  void legend_row(double y, const std::string& swatch, std::string_view name, std::string_view detail,
                  std::uint64_t bytes, const std::string& key) {
    text_ += "<g class=\"row\" data-key=\"" + key + "\">\n<rect class=\"hit\" height=\"36\"";
    attribute("x", kLegendLeft - 8);
    attribute("y", y - 16);
    attribute("width", kLegendRight - kLegendLeft + 16);
    text_ += "/>\n" + swatch;
    const std::string value = human_bytes(bytes);
    const double room = kLegendRight - kLegendLeft - 20 - kCharWidth * static_cast<double>(value.size()) - 12;
    label(kLegendLeft + 20, y, "class=\"name\"", fit_name(name, static_cast<std::size_t>(room / kCharWidth)));
    label(kLegendRight, y, "class=\"value\" text-anchor=\"end\"", value);
    if (!detail.empty()) label(kLegendLeft + 20, y + 14, "class=\"detail\"", fit_path(detail, 35));
    label(kLegendRight, y + 14, "class=\"share\" text-anchor=\"end\"", percent(bytes, peak_.bytes));
    text_ += "</g>\n";
  }

  static std::string swatch(const std::string& style, double y, double height = 12) {
    std::string out = "<rect class=\"" + style + "\" x=\"";
    append_number(out, kLegendLeft);
    out += "\" y=\"";
    append_number(out, y - 10);
    out += "\" width=\"12\" height=\"";
    append_number(out, height);
    return out + "\" rx=\"2\"/>\n";
  }

  void legend() {
    double y = kTop + 6;
    label(kLegendLeft, y, "class=\"when\"", peak_moment(timeline_));
    y += 14;
    rule("base", kLegendLeft, y, kLegendRight, y);
    y += 22;
    std::uint64_t in_sites = 0;
    for (std::size_t i = 0; i < site_count_; ++i) {
      const auto& site = timeline_.sites[i];
      in_sites += site.peak_bytes;
      const std::string full = clean_utf8(site.label);
      const std::string module = clean_utf8(site.module);
      const std::string detail = clean_utf8(site.detail);
      text_ += "<g><title>" +
               xml(full + (detail.empty() ? "" : "\n" + detail) + (module.empty() ? "" : "\n" + module)) +
               "</title>\n";
      // A place without a name begins with its module.
      const bool tells_module = full.starts_with(module + "+");
      legend_row(y, swatch("site" + std::to_string(i), y), short_name(full),
                 detail.empty() && !tells_module ? module : detail, site.peak_bytes, std::to_string(i));
      text_ += "</g>\n";
      y += kLegendRow;
    }
    const std::uint64_t others = timeline_.sites.size() - site_count_;
    legend_row(y, swatch("other", y), "everything else",
               others == 0 ? "" : exact_number(others) + " more call sites and smaller ones",
               peak_.bytes > in_sites ? peak_.bytes - in_sites : 0, "other");
    y += kLegendRow;
    if (most_resident_ != 0) {
      text_ += "<g class=\"row\" data-key=\"rss\">\n";
      rule("resident", kLegendLeft, y - 4, kLegendLeft + 13, y - 4);
      label(kLegendLeft + 20, y, "class=\"name\"", "resident memory (RSS)");
      const std::optional<std::uint64_t> resident = resident_at(peak_.time_ns);
      label(kLegendRight, y, "class=\"value\" text-anchor=\"end\"",
            resident ? human_bytes(*resident) : std::string("\xe2\x80\x93"));
      text_ += "</g>\n";
      y += kLegendLine;
    }
    const auto stretch = [&](const std::string& swatch, const char* meaning) {
      text_ += swatch;
      label(kLegendLeft + 20, y, "class=\"detail\"", meaning);
      y += kLegendLine;
    };
    if (!timeline_.gaps.empty())
      stretch(swatch("idle", y + 4, kRailHeight), "no events: live bytes stay what they were");
    if (!timeline_.pauses.empty()) stretch(swatch("paused", y), "paused: live bytes are a lower bound");
  }

  /// The last sample, unless it is too far from that moment to describe it.
  std::optional<std::uint64_t> resident_at(std::uint64_t time) const {
    constexpr double kNear = 3;  // pixels
    const auto& samples = timeline_.resident;
    const auto after = std::upper_bound(samples.begin(), samples.end(), time,
                                        [](std::uint64_t t, const Timeline::Resident& s) { return t < s.time_ns; });
    const auto last = after == samples.begin() ? after : std::prev(after);
    const bool unsampled = std::any_of(
        timeline_.unsampled.begin(), timeline_.unsampled.end(),
        [&](const Timeline::Span& span) { return span.from_ns < time && time < span.to_ns; });
    if (unsampled && std::abs(x_of(time) - x_of(last->time_ns)) > kNear) return std::nullopt;
    return last->bytes;
  }

  /// What the script moves.
  void pointer() {
    text_ += "<g id=\"pointer\" visibility=\"hidden\"><path class=\"cross\" d=\"M0 ";
    append_number(text_, kTop);
    text_ += "V";
    append_number(text_, kBottom);
    text_ +=
        "\"/><circle class=\"dot\" r=\"4\"/></g>\n<rect id=\"field\" class=\"field\" tabindex=\"0\" "
        "role=\"application\" aria-label=\"Timeline. Arrow keys move through it.\"";
    attribute("x", kLeft);
    attribute("y", kTop);
    attribute("width", kRight - kLeft);
    attribute("height", kBottom - kTop);
    text_ += "/>\n";
  }

  /// Points by columns; numbers above 2^53 lose digits that no label would show.
  void data() {
    const auto column = [&](std::string_view name, auto&& value, std::size_t count) {
      text_.append("\"").append(name).append("\":[");
      for (std::size_t i = 0; i < count; ++i) {
        if (i > 0) text_ += ',';
        text_ += std::to_string(value(i));
      }
      text_ += ']';
    };
    text_ +=
        "<script type=\"application/json\">{\"from\":" + std::to_string(start_) + ",\"to\":" + std::to_string(end_);
    text_ += ",\"top\":" + std::to_string(axis_.top) + ",\"left\":";
    append_number(text_, kLeft);
    text_ += ",\"right\":";
    append_number(text_, kRight);
    text_ += ",\"upper\":";
    append_number(text_, kTop);
    text_ += ",\"lower\":";
    append_number(text_, bottom_);
    text_ += ",\"peak\":[" + std::to_string(peak_.time_ns) + "," + std::to_string(peak_.bytes) + "],\n";
    column("time", [&](std::size_t i) { return points_[i].time_ns; }, points_.size());
    text_ += ",\n";
    column("live", [&](std::size_t i) { return points_[i].live; }, points_.size());
    text_ += ",\n\"sites\":[";
    for (std::size_t site = 0; site < site_count_; ++site) {
      text_ += site == 0 ? "{" : ",\n{";
      column("bytes", [&](std::size_t i) { return points_[i].sites[site]; }, points_.size());
      text_ += "}";
    }
    text_ += "],\n";
    const auto& samples = timeline_.resident;
    const auto kept = envelope(samples.size(), start_, end_, [&](std::size_t i) { return samples[i].time_ns; },
                               [&](std::size_t i) { return samples[i].bytes; });
    column("rssTime", [&](std::size_t i) { return samples[kept[i]].time_ns; }, kept.size());
    text_ += ",\n";
    column("rss", [&](std::size_t i) { return samples[kept[i]].bytes; }, kept.size());
    const auto list = [&](std::string_view name, const std::vector<Timeline::Span>& spans) {
      text_.append(",\n\"").append(name).append("\":[");
      for (std::size_t i = 0; i < spans.size(); ++i)
        text_ +=
            (i == 0 ? "[" : ",[") + std::to_string(spans[i].from_ns) + "," + std::to_string(spans[i].to_ns) + "]";
      text_ += "]";
    };
    list("gaps", timeline_.gaps);
    list("unsampled", timeline_.unsampled);
    list("pauses", timeline_.pauses);
    text_ += "}</script>\n";
  }

  const Timeline& timeline_;
  const Timeline::Peak peak_;
  std::uint64_t start_;
  std::uint64_t end_;
  std::uint64_t most_resident_ = 0;
  std::size_t site_count_ = 0;
  bool own_strip_ = false;
  double bottom_ = kBottom;
  Axis axis_;
  std::vector<Point> points_;
  std::vector<unsigned> hues_;
  std::string text_;
};

}  // namespace

void write_timeline_svg(const Timeline& timeline, const TextSink& out) { Picture(timeline).write(out); }

}  // namespace heapprof::render
