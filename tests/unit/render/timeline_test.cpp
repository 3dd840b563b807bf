#include "analyzer/render/timeline.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "analyzer/render/utf8.h"

using namespace heapprof::render;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

/// Ten seconds with a sample every half second, except for a gap between 4 s and 7 s.
Timeline example() {
  Timeline timeline;
  timeline.title = "Live heap of demo";
  timeline.context = {{"Program", "demo --all"}};
  timeline.sites = {{.label = "big(int)", .detail = "main.c:3", .module = "demo", .bytes = {}, .peak_bytes = 900'000},
                    {.label = "comma, \"quoted\"", .detail = "", .module = "", .bytes = {}, .peak_bytes = 90'000}};
  for (std::uint64_t half = 0; half <= 20; ++half) {
    if (half > 8 && half < 14) continue;
    timeline.time_ns.push_back(half * kSecond / 2);
    timeline.live_bytes.push_back(half * 50'000);
    timeline.sites[0].bytes.push_back(half * 45'000);
    timeline.sites[1].bytes.push_back(half * 4'500);
    timeline.resident.push_back({half * kSecond / 2 + 1, 1'000'000 + half * 40'000});
  }
  timeline.duration_ns = 10 * kSecond;
  timeline.peak = Timeline::Peak{9'700'000'000, 1'048'576};
  timeline.idle = spans_without_samples(timeline.time_ns, timeline.duration_ns, kSecond);
  timeline.unsampled = timeline.idle;
  return timeline;
}

template <typename Write>
std::string text_of(Write&& write) {
  std::string out;
  write([&](std::string_view text) { out += text; });
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string plot(const Timeline& timeline, const PlotOptions& options) {
  return text_of([&](const TextSink& out) { write_timeline_text(timeline, options, out); });
}

}  // namespace

TEST_CASE("idle times are marked below the chart, pauses in it, also where both are") {
  Timeline timeline = example();
  // Pauses that contain the idle time, very short ones at both ends, and many adjacent ones.
  timeline.pauses = {{0, 1}, {3'900'000'000, 7'100'000'000}};
  for (std::uint64_t i = 0; i < 40; ++i)
    timeline.pauses.push_back({8 * kSecond + i * 20'000'000, 8 * kSecond + i * 20'000'000 + 10'000'000});
  timeline.pauses.push_back({10 * kSecond - 1, 10 * kSecond});
  const std::string svg = text_of([&](const TextSink& out) { write_timeline_svg(timeline, out); });
  std::vector<std::string> heights;
  std::size_t narrow = 0;
  std::size_t idle = 0;
  for (const std::string& line : lines_of(svg)) {
    const auto value = [&](const std::string& name) {
      const std::size_t from = line.find(" " + name + "=\"") + name.size() + 3;
      return line.substr(from, line.find('"', from) - from);
    };
    if (line.find(">paused<") != std::string::npos) heights.push_back(value("y"));
    if (line.find("class=\"idle\"") != std::string::npos && line.find("rx=") == std::string::npos) {
      ++idle;
      CHECK(std::stod(value("height")) <= 6);
    }
    if (line.find("class=\"paused\"") == std::string::npos || line.find("rx=") != std::string::npos) continue;
    const double left = std::stod(value("x")), width = std::stod(value("width"));
    CHECK(width >= 1.5);
    CHECK((left >= 76 && left + width <= 846.05));
    if (width < 10) ++narrow;
  }
  CHECK(idle == timeline.idle.size());
  CHECK(heights.size() == 1);
  CHECK(narrow >= 2);
  CHECK(svg.find(">idle (no events)<") != std::string::npos);
  CHECK(svg.find("paused: live bytes are a lower bound") != std::string::npos);
  timeline.pauses.clear();
  timeline.idle.clear();
  const std::string plain = text_of([&](const TextSink& out) { write_timeline_svg(timeline, out); });
  CHECK(plain.find(">idle (no events)<") == std::string::npos);
  CHECK(plain.find("paused: live bytes") == std::string::npos);
}

TEST_CASE("long times without samples are found, also at the beginning and the end") {
  const auto spans = spans_without_samples({5, 6, 20, 21}, 40, 4);
  REQUIRE(spans.size() == 3);
  CHECK((spans[0].from_ns == 0 && spans[0].to_ns == 5));
  CHECK((spans[1].from_ns == 6 && spans[1].to_ns == 20));
  CHECK((spans[2].from_ns == 21 && spans[2].to_ns == 40));
  CHECK(spans_without_samples({}, 0, 4).empty());
  CHECK(spans_without_samples({1, 2, 3}, 4, 4).empty());
}

TEST_CASE("peak: the given one, else the first of the highest samples") {
  Timeline timeline;
  CHECK(peak_of(timeline).bytes == 0);
  timeline.time_ns = {1, 2, 3};
  timeline.live_bytes = {4, 9, 9};
  CHECK(peak_of(timeline).bytes == 9);
  CHECK(peak_of(timeline).time_ns == 2);
  timeline.peak = Timeline::Peak{5, 12};
  CHECK(peak_of(timeline).time_ns == 5);
}

TEST_CASE("csv: every sample of both kinds, quoted names, constant values between samples") {
  const auto lines = lines_of(text_of([](const TextSink& out) { write_timeline_csv(example(), out); }));
  REQUIRE(lines.size() == 1 + 16 + 16);
  CHECK(lines[0] == "time_ns,live_bytes,highest_bytes,rss_bytes,big(int),\"comma, \"\"quoted\"\"\"");
  CHECK(lines[1] == "0,0,0,,0,0");
  CHECK(lines[2] == "1,0,0,1000000,0,0");
  CHECK(lines[3] == "500000000,50000,50000,,45000,4500");
  CHECK(lines.back() == "10000000001,1000000,1000000,1800000,900000,90000");
}

TEST_CASE("csv: samples at one time are one line") {
  Timeline timeline;
  timeline.time_ns = {5, 9};
  timeline.live_bytes = {1, 2};
  timeline.resident = {{5, 100}, {7, 200}};
  CHECK(text_of([&](const TextSink& out) { write_timeline_csv(timeline, out); }) ==
        "time_ns,live_bytes,highest_bytes,rss_bytes\n5,1,1,100\n7,1,1,200\n9,2,2,\n");
  timeline.highest_bytes = {3, 8};
  CHECK(text_of([&](const TextSink& out) { write_timeline_csv(timeline, out); }) ==
        "time_ns,live_bytes,highest_bytes,rss_bytes\n5,1,3,100\n7,1,1,200\n9,2,8,\n");
  CHECK(peak_of(timeline).bytes == 8);
}

TEST_CASE("json: every value, exactly; hostile names are escaped") {
  Timeline timeline = example();
  timeline.sites[0].label = "bad\xff\n";
  timeline.marks = {{kSecond, "begin"}};
  const auto json = nlohmann::json::parse(timeline_json(timeline).dump());
  CHECK(json["peak"]["bytes"] == 1'048'576);
  CHECK(json["peak"]["time_ns"] == 9'700'000'000);
  CHECK(json["samples"]["time_ns"].size() == 16);
  CHECK(json["samples"]["live_bytes"][1] == 50'000);
  CHECK(json["rss"]["bytes"][0] == 1'000'000);
  CHECK(json["sites"][0]["label"] == "bad\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(json["sites"][0]["bytes"].size() == 16);
  CHECK(json["idle"][0]["from_ns"] == 4 * kSecond);
  CHECK(json["idle"][0]["to_ns"] == 7 * kSecond);
  CHECK(json["gaps"] == json["idle"]);
  CHECK(json["marks"][0]["text"] == "begin");
}

TEST_CASE("plot: within its width, no trailing blanks, the same without colour") {
  for (const unsigned width : {40u, 57u, 80u, 132u}) {
    for (const bool unicode : {true, false}) {
      const PlotOptions options{.width = width, .height = 10, .unicode = unicode, .colour = false};
      const std::string text = plot(example(), options);
      for (const std::string& line : lines_of(text)) {
        INFO(line);
        CHECK(length_utf8(line) <= std::max<std::size_t>(width, 50));
        CHECK((line.empty() || line.back() != ' '));
        if (!unicode) CHECK(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c < 0x7f; }));
      }
      CHECK(text.find("peak 1.00 MiB at 9.70 s") != std::string::npos);
      CHECK(text.find("big()") != std::string::npos);
      CHECK(text.find("everything else") != std::string::npos);
      CHECK(text.find(". idle (no events)") + text.find("\u254c idle (no events)") != 2 * std::string::npos);
    }
  }
  PlotOptions coloured{.colour = true};
  std::string text = plot(example(), coloured);
  CHECK(text.find("\x1b[") != std::string::npos);
  while (text.find('\x1b') != std::string::npos) {
    const std::size_t at = text.find('\x1b');
    text.erase(at, text.find('m', at) - at + 1);
  }
  CHECK(text == plot(example(), {}));
}

TEST_CASE("plot: what has no live byte at the peak is not listed") {
  Timeline timeline = example();
  timeline.sites[1].peak_bytes = 0;
  const std::string text = plot(timeline, {});
  CHECK(text.find("big()") != std::string::npos);
  CHECK(text.find("comma") == std::string::npos);
  CHECK(text.find(" 0 B") == std::string::npos);
}

TEST_CASE("plot: the height of the area is its value") {
  Timeline timeline;
  timeline.title = "ramp";
  timeline.duration_ns = 100;
  for (std::uint64_t i = 0; i <= 100; ++i) {
    timeline.time_ns.push_back(i);
    timeline.live_bytes.push_back(i < 50 ? 0 : 4096);
  }
  const auto lines = lines_of(plot(timeline, {.width = 60, .height = 8, .unicode = false}));
  std::size_t filled_lines = 0;
  std::size_t area = 0;
  for (const std::string& line : lines) {
    if (line.find("live heap") != std::string::npos) continue;
    const auto count = static_cast<std::size_t>(std::count(line.begin(), line.end(), '#'));
    filled_lines += count > 0;
    area += count;
  }
  // The axis ends at 4 KiB: full height over half of the width.
  CHECK(filled_lines == 8);
  CHECK(area >= 8 * 24);
  CHECK(area <= 8 * 28);
}

TEST_CASE("plot: idle times are marked on the axis; resident memory is not drawn where it is unknown") {
  // Samples throughout, as of a recording; resident memory is known in the first and the last fifth.
  Timeline timeline;
  timeline.title = "idle";
  timeline.duration_ns = 1000;
  for (std::uint64_t time = 0; time <= 1000; time += 2) {
    timeline.time_ns.push_back(time);
    timeline.live_bytes.push_back(time < 200 ? 8'000 : 3'000);
    if (time <= 200 || time >= 800) timeline.resident.push_back({time, 7'000});
  }
  timeline.idle = {{210, 790}};
  timeline.unsampled = {{200, 800}};
  const auto lines = lines_of(plot(timeline, {.width = 100, .height = 8, .unicode = false}));
  std::string axis;
  std::vector<std::size_t> resident;
  std::size_t area_columns = 0;
  for (const std::string& line : lines) {
    if (line.starts_with("    0 +")) axis = line.substr(7);
    if (line.find(" live heap ") != std::string::npos || !axis.empty()) continue;
    for (std::size_t i = 7; i < line.size(); ++i)
      if (line[i] == '.') resident.push_back(i - 7);
    const auto area = static_cast<std::size_t>(std::count(line.begin(), line.end(), '#'));
    area_columns = std::max(area_columns, area);
  }
  REQUIRE(axis.size() > 50);
  const std::size_t width = axis.size();
  CHECK(area_columns == width);  // idle or not
  for (std::size_t i = 0; i < width; ++i) {
    INFO("column " << i << " of " << axis);
    const bool idle = i * 1000 >= 210 * width && (i + 1) * 1000 <= 790 * width;
    CHECK((axis[i] == '.' || axis[i] == '+') >= idle);
    if (!idle) CHECK(axis[i] != '.');
  }
  CHECK(resident.size() > width / 10);
  for (const std::size_t column : resident) {
    INFO("column " << column);
    CHECK((column * 1000 < 220 * width || column * 1000 > 780 * width));
  }
}

TEST_CASE("picture: live bytes in an idle time are those of the samples") {
  // An idle time that begins while memory falls was once drawn with what had been live before.
  Timeline timeline;
  timeline.title = "fall";
  timeline.duration_ns = 1000;
  for (std::uint64_t time = 0; time <= 1000; time += 50) {
    timeline.time_ns.push_back(time);
    timeline.live_bytes.push_back(time <= 100 ? 7'000 : time <= 150 ? 5'000 : time <= 800 ? 4'000 : 6'000);
  }
  for (const std::uint64_t begin : {100, 149, 150, 199, 200}) {
    timeline.idle = {{begin, 800}};
    const std::string svg = text_of([&](const TextSink& out) { write_timeline_svg(timeline, out); });
    const std::size_t at = svg.find("<script type=\"application/json\">") + 32;
    const auto data = nlohmann::json::parse(svg.substr(at, svg.find("</script>", at) - at));
    for (std::size_t i = 0; i < data["time"].size(); ++i) {
      const auto sample = std::find(timeline.time_ns.begin(), timeline.time_ns.end(), data["time"][i]);
      REQUIRE(sample != timeline.time_ns.end());
      CHECK(data["live"][i] == timeline.live_bytes[static_cast<std::size_t>(sample - timeline.time_ns.begin())]);
    }
  }
}

TEST_CASE("plot: nothing recorded, one sample, all zero, no duration") {
  Timeline timeline;
  timeline.title = "nothing";
  CHECK(plot(timeline, {}).find("nothing was recorded") != std::string::npos);
  timeline.time_ns = {0};
  timeline.live_bytes = {0};
  CHECK(plot(timeline, {}).find("live heap") != std::string::npos);
  timeline.live_bytes = {UINT64_MAX / 4};
  CHECK(plot(timeline, {}).find("4.00 EiB") != std::string::npos);
}

TEST_CASE("plot: resident memory far above the heap is printed, not drawn") {
  Timeline timeline = example();
  timeline.resident = {{1, 1ull << 40}};
  const std::string text = plot(timeline, {});
  CHECK(text.find("above this scale") != std::string::npos);
}

TEST_CASE("svg: a single sample of resident memory is a dot") {
  Timeline timeline = example();
  const auto dots = [&] {
    const std::string svg = text_of([&](const TextSink& out) { write_timeline_svg(timeline, out); });
    const std::string begin = "<path class=\"resident alone\" d=\"";
    const std::size_t at = svg.find(begin);
    if (at == std::string::npos) return std::ptrdiff_t{0};
    const std::string path = svg.substr(at + begin.size(), svg.find('"', at + begin.size()) - at - begin.size());
    return std::count(path.begin(), path.end(), 'M');
  };
  timeline.unsampled.clear();
  CHECK(dots() == 0);
  // All samples are apart from each other, then all but the last two.
  for (std::size_t i = 1; i < timeline.resident.size(); ++i)
    timeline.unsampled.push_back({timeline.resident[i - 1].time_ns, timeline.resident[i].time_ns});
  CHECK(dots() == static_cast<std::ptrdiff_t>(timeline.resident.size()));
  timeline.unsampled.pop_back();
  CHECK(dots() == static_cast<std::ptrdiff_t>(timeline.resident.size()) - 2);
}
