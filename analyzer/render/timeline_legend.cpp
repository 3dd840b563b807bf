// The legend of a timeline's picture: call sites at the peak, resident memory, idle times, pauses.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "analyzer/render/escape.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/timeline_picture.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

// In pixels.
constexpr double kLegendRow = 37;
constexpr double kLegendLine = 20;  // a row without a second line

}  // namespace

void TimelinePicture::legend_row(double y, const std::string& swatch, std::string_view name, std::string_view detail,
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

std::string TimelinePicture::swatch(const std::string& style, double y, double height) {
  std::string out = "<rect class=\"" + style + "\" x=\"";
  append_number(out, kLegendLeft, 1);
  out += "\" y=\"";
  append_number(out, y - 10, 1);
  out += "\" width=\"12\" height=\"";
  append_number(out, height, 1);
  return out + "\" rx=\"2\"/>\n";
}

void TimelinePicture::legend() {
  double y = kTop + 6;
  label(kLegendLeft, y, "class=\"when\"", peak_moment(timeline_));
  y += 14;
  line("base", kLegendLeft, y, kLegendRight, y);
  y += 22;
  std::uint64_t in_sites = 0;
  for (std::size_t i = 0; i < site_count_; ++i) {
    const auto& site = timeline_.sites[i];
    in_sites += site.peak_bytes;
    const std::string full = clean_utf8(site.label);
    const std::string module = clean_utf8(site.module);
    const std::string detail = clean_utf8(site.detail);
    text_ += "<g><title>" +
             xml(full + (detail.empty() ? "" : "\n" + detail) + (module.empty() ? "" : "\n" + module)) + "</title>\n";
    // The name of an unresolved address begins with its module.
    const bool names_module = full.starts_with(module + "+");
    legend_row(y, swatch("site" + std::to_string(i), y), without_arguments(full),
               detail.empty() && !names_module ? module : detail, site.peak_bytes, std::to_string(i));
    text_ += "</g>\n";
    y += kLegendRow;
  }
  const std::uint64_t others = timeline_.sites.size() - site_count_;
  legend_row(y, swatch("other", y), "everything else",
             others == 0 ? "" : exact_number(others) + " more call sites, and smaller ones",
             peak_.bytes > in_sites ? peak_.bytes - in_sites : 0, "other");
  y += kLegendRow;
  if (max_resident_ != 0) {
    text_ += "<g class=\"row\" data-key=\"rss\">\n";
    line("resident", kLegendLeft, y - 4, kLegendLeft + 13, y - 4);
    label(kLegendLeft + 20, y, "class=\"name\"", "resident memory (RSS)");
    const std::optional<std::uint64_t> resident = resident_at(peak_.time_ns);
    label(kLegendRight, y, "class=\"value\" text-anchor=\"end\"",
          resident ? human_bytes(*resident) : std::string("\xe2\x80\x93"));
    text_ += "</g>\n";
    y += kLegendLine;
  }
  const auto span_row = [&](const std::string& swatch, const char* meaning) {
    text_ += swatch;
    label(kLegendLeft + 20, y, "class=\"detail\"", meaning);
    y += kLegendLine;
  };
  if (!timeline_.idle.empty()) span_row(swatch("idle", y + 4, kRailHeight), "idle (no events)");
  if (!timeline_.pauses.empty()) span_row(swatch("paused", y), "paused: live bytes are a lower bound");
}

std::optional<std::uint64_t> TimelinePicture::resident_at(std::uint64_t time) const {
  constexpr double kNear = 3;  // pixels
  const auto& samples = timeline_.resident;
  const auto after = std::upper_bound(samples.begin(), samples.end(), time,
                                      [](std::uint64_t t, const Timeline::Resident& s) { return t < s.time_ns; });
  const auto last = after == samples.begin() ? after : std::prev(after);
  const bool unsampled =
      std::any_of(timeline_.unsampled.begin(), timeline_.unsampled.end(),
                  [&](const Timeline::Span& span) { return span.from_ns < time && time < span.to_ns; });
  if (unsampled && std::abs(x_of(time) - x_of(last->time_ns)) > kNear) return std::nullopt;
  return last->bytes;
}

}  // namespace heapprof::render
