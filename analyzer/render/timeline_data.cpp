// The parts of a timeline's picture for its script, assets/timeline.js.
#include "analyzer/render/timeline_picture.h"

namespace heapprof::render {

void TimelinePicture::pointer() {
  text_ += "<g id=\"pointer\" visibility=\"hidden\"><path class=\"cross\" d=\"M0 ";
  number(kTop);
  text_ += "V";
  number(kBottom);
  text_ +=
      "\"/><circle class=\"dot\" r=\"4\"/></g>\n<rect id=\"field\" class=\"field\" tabindex=\"0\" "
      "role=\"application\" aria-label=\"Timeline. Arrow keys move the pointer.\"";
  attribute("x", kLeft);
  attribute("y", kTop);
  attribute("width", kRight - kLeft);
  attribute("height", kBottom - kTop);
  text_ += "/>\n";
}

void TimelinePicture::data() {
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
  number(kLeft);
  text_ += ",\"right\":";
  number(kRight);
  text_ += ",\"upper\":";
  number(kTop);
  text_ += ",\"lower\":";
  number(bottom_);
  text_ += ",\"peak\":[" + std::to_string(peak_.time_ns) + "," + std::to_string(peak_.bytes) + "],\n";
  column(
      "time", [&](std::size_t i) { return points_[i].time_ns; }, points_.size());
  text_ += ",\n";
  column(
      "live", [&](std::size_t i) { return points_[i].live; }, points_.size());
  text_ += ",\n\"sites\":[";
  for (std::size_t site = 0; site < site_count_; ++site) {
    text_ += site == 0 ? "{" : ",\n{";
    column(
        "bytes", [&](std::size_t i) { return points_[i].sites[site]; }, points_.size());
    text_ += "}";
  }
  text_ += "],\n";
  const auto& samples = timeline_.resident;
  const auto kept = envelope(
      samples.size(), start_, end_, [&](std::size_t i) { return samples[i].time_ns; },
      [&](std::size_t i) { return samples[i].bytes; });
  column(
      "rssTime", [&](std::size_t i) { return samples[kept[i]].time_ns; }, kept.size());
  text_ += ",\n";
  column(
      "rss", [&](std::size_t i) { return samples[kept[i]].bytes; }, kept.size());
  const auto list = [&](std::string_view name, const std::vector<Timeline::Span>& spans) {
    text_.append(",\n\"").append(name).append("\":[");
    for (std::size_t i = 0; i < spans.size(); ++i)
      text_ += (i == 0 ? "[" : ",[") + std::to_string(spans[i].from_ns) + "," + std::to_string(spans[i].to_ns) + "]";
    text_ += "]";
  };
  list("idle", timeline_.idle);
  list("unsampled", timeline_.unsampled);
  list("pauses", timeline_.pauses);
  text_ += "}</script>\n";
}

}  // namespace heapprof::render
