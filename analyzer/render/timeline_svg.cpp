// The picture is complete without JavaScript. assets/timeline.js adds the values under the pointer, from the points
// that are in the file as JSON.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/render/escape.h"
#include "analyzer/render/palette.h"
#include "analyzer/render/render_assets.h"
#include "analyzer/render/timeline_picture.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

// In pixels.
constexpr double kWidth = 1200;
constexpr double kHeight = 640;
constexpr double kStripHeight = 78;  // of resident memory's own strip
constexpr double kStripGap = 34;
constexpr std::size_t kMaxSites = 10;

/// Above this multiple of the peak, resident memory has a scale of its own: it would flatten the heap.
constexpr std::uint64_t kMaxResidentShare = 4;

}  // namespace

TimelinePicture::TimelinePicture(const Timeline& timeline) : timeline_(timeline), peak_(peak_of(timeline)) {
  start_ = timeline.start_ns;
  end_ = std::max(start_ + 1, timeline.duration_ns);
  for (const std::uint64_t time : timeline.time_ns) end_ = std::max(end_, time);
  for (const auto& sample : timeline.resident) {
    end_ = std::max(end_, sample.time_ns);
    max_resident_ = std::max(max_resident_, sample.bytes);
  }
  site_count_ = std::min(timeline.sites.size(), kMaxSites);
  own_strip_ = max_resident_ > 0 && max_resident_ / kMaxResidentShare > peak_.bytes;
  bottom_ = own_strip_ ? kBottom - kStripHeight - kStripGap : kBottom;
  // With room for the peak's label.
  axis_ = byte_axis(std::max(peak_.bytes + peak_.bytes / 12, own_strip_ ? 0 : max_resident_), own_strip_ ? 6 : 7);
  points_ = timeline_points(timeline, start_, end_, site_count_);
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < site_count_; ++i)
    labels.push_back(timeline.sites[i].label + '\n' + timeline.sites[i].module);
  hues_ = hues_of(labels);
}

void TimelinePicture::write(const TextSink& out) {
  head();
  axes();
  areas();
  spans();
  if (own_strip_) resident_strip();
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
  out(assets::kFiguresJs);
  out(assets::kTimelineJs);
  out("]]></script>\n</svg>\n");
}

void TimelinePicture::head() {
  text_ +=
      "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"heapprof-timeline\"";
  attribute("width", kWidth);
  attribute("height", kHeight);
  text_ += " viewBox=\"0 0 ";
  number(kWidth);
  text_ += ' ';
  number(kHeight);
  text_ += "\">\n<title>" + xml(clean_utf8(timeline_.title)) + "</title>\n<style><![CDATA[\n";
  text_ += assets::kTimelineCss;
  for (const bool dark : {false, true}) {
    if (dark) text_ += "@media (prefers-color-scheme: dark) {\n";
    for (std::size_t i = 0; i < site_count_; ++i)
      text_ += ".site" + std::to_string(i) + " { fill: " + area_colour(hues_[i], dark) + "; }\n";
    text_ += ".other { fill: " + area_colour(kGrey, dark) + "; }\n";
    if (dark) text_ += "}\n";
  }
  text_ +=
      "]]></style>\n"
      "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
  text_ += "<text class=\"title\" x=\"24\" y=\"38\">" + xml(clip_utf8(clean_utf8(timeline_.title), 90)) + "</text>\n";
  std::string line;
  for (const auto& [label, value] : timeline_.context) {
    if (!line.empty()) line += "   \xc2\xb7   ";
    line += label.empty() ? clean_utf8(value) : clean_utf8(label) + ": " + clean_utf8(value);
  }
  text_ += "<text class=\"muted\" x=\"24\" y=\"61\">" + xml(clip_utf8(line, 170)) + "</text>\n";
}

void TimelinePicture::byte_ticks(const Axis& axis, double top, double bottom) {
  for (const std::uint64_t tick : axis.ticks) {
    const double y = y_in(tick, top, bottom, axis.top);
    line(tick == 0 ? "base" : "grid", kLeft, y, kRight, y);
    label(kLeft - 10, y + 4, "class=\"muted\" text-anchor=\"end\"", byte_tick_label(tick));
  }
}

void TimelinePicture::axes() {
  byte_ticks(axis_, kTop, bottom_);
  const Axis times = time_axis(end_, 8, start_);
  for (const std::uint64_t tick : times.ticks) {
    const double x = x_of(tick);
    line("base", x, bottom_, x, bottom_ + 5);
    if (own_strip_) line("base", x, kBottom, x, kBottom + 5);
    label(x, kBottom + 21, "class=\"muted\" text-anchor=\"middle\"", time_tick_label(tick, times));
  }
}

void TimelinePicture::areas() {
  if (points_.empty()) return;
  text_ += "<g class=\"areas\">\n";
  std::vector<std::uint64_t> below(points_.size());
  const auto area = [&](const std::string& style, auto&& value) {
    text_ += "<path class=\"" + style + "\" d=\"M";
    const auto vertex = [&, first = true](double x, double y) mutable {
      if (!first) text_ += 'L';
      first = false;
      number(x);
      text_ += ' ';
      number(y);
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
    number(x_of(points_[i].time_ns));
    text_ += ' ';
    number(y_of(points_[i].highest));
  }
  text_ += "\"/>\n";
}

void TimelinePicture::spans() {
  const auto draw = [&](const std::vector<Timeline::Span>& list, const char* style, double min_apart,
                        double min_width, double top, double height, const char* name) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      // Spans closer than min_apart are drawn as one.
      double left = x_of(list[i].from_ns);
      double right = x_of(list[i].to_ns);
      while (i + 1 < list.size() && x_of(list[i + 1].from_ns) - right < min_apart) right = x_of(list[++i].to_ns);
      right = std::max(right, left + min_width);
      if (right > kRight) left -= std::exchange(right, kRight) - kRight;
      const double width = right - left;
      if (width < 0.8) continue;
      text_.append("<rect class=\"").append(style).append("\" x=\"");
      number(left);
      text_ += "\" y=\"";
      number(top);
      text_ += "\" width=\"";
      number(width);
      text_ += "\" height=\"";
      number(height);
      text_ += "\"/>\n";
      if (name != nullptr && width > 70)
        label(left + width / 2, bottom_ - 12, "class=\"note\" text-anchor=\"middle\"", name);
    }
  };
  draw(timeline_.idle, "idle", 1, 0, bottom_ + 1, kRailHeight, nullptr);
  draw(timeline_.pauses, "paused", 3, 1.5, kTop, bottom_ - kTop, "paused");
}

void TimelinePicture::resident(double top, double bottom, std::uint64_t largest) {
  const auto& samples = timeline_.resident;
  if (samples.empty()) return;
  const auto kept = envelope(
      samples.size(), start_, end_, [&](std::size_t i) { return samples[i].time_ns; },
      [&](std::size_t i) { return samples[i].bytes; });
  std::string path;
  std::string dots;      // samples without a neighbour, which are too small to be seen as a piece of a line
  std::string last_dot;  // the last sample, if a break precedes it
  std::size_t unsampled = 0;
  bool broken = true;
  for (const std::size_t i : kept) {
    while (unsampled < timeline_.unsampled.size() && timeline_.unsampled[unsampled].to_ns <= samples[i].time_ns) {
      ++unsampled;
      broken = true;
    }
    std::string place;
    append_number(place, x_of(samples[i].time_ns), 1);
    place += ' ';
    append_number(place, y_in(samples[i].bytes, top, bottom, largest), 1);
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

void TimelinePicture::resident_strip() {
  const double top = kBottom - kStripHeight;
  const Axis axis = byte_axis(max_resident_, 2);
  label(kLeft, top - 8, "class=\"muted\"", "Resident memory (RSS), on its own scale");
  byte_ticks(axis, top, kBottom);
  resident(top, kBottom, axis.top);
}

void TimelinePicture::marks() {
  // Names side by side where there is room, else a line higher, else only under the pointer.
  constexpr unsigned kRows = 2;
  double free_from[kRows] = {0, 0};
  for (const auto& mark : timeline_.marks) {
    const double x = x_of(mark.time_ns);
    const std::string name = clip_utf8(clean_utf8(mark.text), 28);
    const double width = kCharWidth * static_cast<double>(length_utf8(name)) + 10;
    text_ +=
        "<g class=\"mark\"><title>" + xml(human_time(mark.time_ns) + ": " + clean_utf8(mark.text)) + "</title>\n";
    line("markline", x, kTop - 18, x, bottom_);
    for (unsigned row = 0; row < kRows; ++row) {
      if (free_from[row] > x) continue;
      const bool left = x + width > kRight;
      label(left ? x - 5 : x + 5, kTop - 8 - 13 * row, left ? "class=\"note\" text-anchor=\"end\"" : "class=\"note\"",
            name);
      free_from[row] = x + width;
      break;
    }
    text_ += "</g>\n";
  }
}

void TimelinePicture::peak() {
  if (peak_.bytes == 0) return;
  const double x = x_of(peak_.time_ns);
  const double y = y_of(peak_.bytes);
  line("peakline", x, y, x, bottom_);
  text_ += "<circle class=\"peak\" r=\"4.5\" cx=\"";
  number(x);
  text_ += "\" cy=\"";
  number(y);
  text_ += "\"/>\n";
  const std::string words = peak_label(timeline_);
  const double half = kCharWidth * static_cast<double>(length_utf8(words)) / 2 + 8;
  const double middle = std::clamp(x, kLeft + half, kRight - half);
  label(middle, std::max(y - 12, kTop + 8), "class=\"peaklabel\" text-anchor=\"middle\"", words);
}

void write_timeline_svg(const Timeline& timeline, const TextSink& out) { TimelinePicture(timeline).write(out); }

}  // namespace heapprof::render
