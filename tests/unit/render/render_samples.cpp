// Writes pictures of inputs that are hard to draw. svg_test.py and browser_test.py have the expected contents.
//
//   render_samples DIRECTORY
#include <array>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "analyzer/render/flamegraph.h"
#include "analyzer/render/timeline.h"
#include "tests/support/seed.h"

using namespace heapprof::render;

namespace {

std::string directory;

void save_flames(const std::string& name, const FlameTree& tree, const FlameOptions& options) {
  std::ofstream svg(directory + "/" + name + ".svg", std::ios::binary);
  write_flamegraph_svg(tree, options, [&](std::string_view text) { svg << text; });
  std::ofstream folded(directory + "/" + name + ".folded", std::ios::binary);
  write_folded(tree, [&](std::string_view text) { folded << text; });
}

void save_timeline(const std::string& name, const Timeline& timeline) {
  std::ofstream svg(directory + "/" + name + ".svg", std::ios::binary);
  write_timeline_svg(timeline, [&](std::string_view text) { svg << text; });
}

void add(FlameTree& tree, const std::vector<FlameFrame>& stack, std::uint64_t value) {
  std::vector<FlameTree::Frame> frames;
  for (const FlameFrame& frame : stack) frames.push_back(tree.frame(frame));
  tree.add_stack(frames, value);
}

FlameFrame frame(const std::string& function, const std::string& module = "demo", const std::string& file = "",
                 std::uint32_t line = 0, bool inlined = false) {
  return {.function = function, .module = module, .file = file, .line = line, .inlined = inlined};
}

/// A small tree, whose figures browser_test.py contains.
void small() {
  FlameTree tree;
  const FlameFrame main = frame("main", "/usr/bin/demo", "src/main.c", 10);
  add(tree, {main, frame("alpha(int)", "demo", "src/alpha.c", 3), frame("leaf", "/lib/libleaf.so.1")}, 600);
  add(tree, {main, frame("alpha(int)", "demo", "src/alpha.c", 4)}, 200);
  add(tree, {main, frame("beta", "demo", "src/beta.c", 5, true), frame("Alpha::operator()(char)", "demo")}, 150);
  add(tree, {main, frame("beta", "demo", "src/beta.c", 5, true), frame("alpha(int)", "demo", "src/alpha.c", 9)}, 50);
  save_flames("small", tree,
              {.title = "Peak heap of demo",
               .cost = "live at the peak",
               .unit = Unit::kBytes,
               .context = {{"Program", "demo --fast"}, {"Peak", "at 1.5 s"}}});
}

void hostile() {
  FlameTree tree;
  const std::vector<std::string> names = {"semi;colon",
                                          "#hash",
                                          "quo\"te'",
                                          "line\nfeed",
                                          "non\xff\xfeutf8",
                                          "]]></script><script>alert(1)</script>",
                                          "<!--",
                                          "&amp;",
                                          "x" + std::string(10'240, 'T'),
                                          std::string("nul\0byte", 8),
                                          "\xe2\x80\xa8sep",
                                          "constructor",
                                          "__proto__",
                                          "\xf0\x9f\x94\xa5",
                                          ""};
  for (std::size_t i = 0; i < names.size(); ++i)
    add(tree,
        {frame("main"), frame(names[i], names[(i + 3) % names.size()], names[(i + 5) % names.size()], 1),
         frame(names[(i + 1) % names.size()])},
        1000 + i);
  save_flames("hostile", tree,
              {.title = "<hostile> & \"title\" \xff", .cost = "]]>", .context = {{"<b>", "</script>"}}});

  Timeline timeline;
  timeline.title = names[5];
  timeline.context = {{names[1], names[4]}};
  for (std::uint64_t i = 0; i < 50; ++i) {
    timeline.time_ns.push_back(i * 10'000'000);
    timeline.live_bytes.push_back(i * 1000);
  }
  for (const std::string& name : names)
    timeline.sites.push_back({.label = name,
                              .detail = name,
                              .module = name,
                              .bytes = std::vector<std::uint64_t>(50, 10),
                              .peak_bytes = 10});
  timeline.marks = {{100'000'000, names[5]}, {110'000'000, names[8]}};
  timeline.resident = {{0, 0}, {490'000'000, 100'000}};
  save_timeline("timeline_hostile", timeline);
}

void extremes() {
  save_flames("empty", FlameTree(), {.title = "Leaked heap of demo", .cost = "leaked"});
  save_timeline("timeline_empty", {});

  FlameTree huge;
  add(huge, {frame("main"), frame("big")}, (std::uint64_t{1} << 56) - 1);
  add(huge, {frame("main"), frame("small")}, 1);
  save_flames("huge", huge, {.title = "huge"});

  Timeline one;
  one.title = "one sample";
  one.time_ns = {0};
  one.live_bytes = {(std::uint64_t{1} << 56) - 1};
  save_timeline("timeline_huge", one);

  FlameTree deep;
  std::vector<FlameFrame> stack;
  for (int i = 0; i < 3000; ++i) stack.push_back(frame("recurse(int)"));
  add(deep, stack, 77);
  save_flames("deep", deep, {.title = "deep", .cost = "allocations", .unit = Unit::kCount});

  // Shares that are written with a `<`.
  FlameTree tiny;
  add(tiny, {frame("main")}, 1'000'000'000);
  for (int i = 0; i < 20; ++i) add(tiny, {frame("main"), frame("f" + std::to_string(i), "libtiny.so")}, 1);
  save_flames("tiny", tiny, {.title = "tiny", .max_frames = 10});
  Timeline slivers;
  slivers.title = "slivers";
  slivers.time_ns = {0, 1, 2'000'000'000, 4'000'000'000};
  slivers.live_bytes = {0, 1'000'000'000, 1'000'000'000, 1};
  slivers.sites = {{.label = "f", .detail = "", .module = "", .bytes = {0, 1, 1, 1}, .peak_bytes = 1}};
  slivers.resident = {{2'000'000'000, 1}, {4'000'000'000, 1'000'000'000}};
  slivers.idle = spans_without_samples(slivers.time_ns, 5'000'000'000, 1'000'000'000);
  slivers.unsampled = slivers.idle;
  slivers.pauses = slivers.idle;
  save_timeline("timeline_slivers", slivers);

  FlameTree counts;
  add(counts, {frame("main")}, 1'234'567);
  save_flames("counts", counts, {.title = "counts", .cost = "allocations", .unit = Unit::kCount});
}

/// One tree of 10,000 frames, and one of 100,000, of which the file contains 5,000.
void large() {
  for (const auto& [name, frames, kept] :
       {std::tuple("large", 10'000u, 50'000u), std::tuple("pruned", 100'000u, 5'000u)}) {
    std::mt19937 random(heapprof::test::seed(3));
    FlameTree tree;
    while (tree.nodes().size() < frames) {
      std::vector<FlameFrame> stack{frame("main")};
      const unsigned depth = 2 + static_cast<unsigned>(random() % 30);
      for (unsigned i = 0; i < depth; ++i) {
        const auto pick = static_cast<unsigned>(random() % (i < 4 ? 3 : 12));
        stack.push_back(frame(
            "namespace_" + std::to_string(i % 7) + "::function_" + std::to_string(pick) + "<int, char>(long)",
            "lib" + std::to_string(pick % 9) + ".so", "src/file" + std::to_string(i) + ".cpp", pick, pick % 4 == 1));
      }
      add(tree, stack, 16 + random() % 100'000);
    }
    save_flames(name, tree, {.title = name, .max_frames = kept});
  }
}

void time() {
  Timeline timeline;
  timeline.title = "Live heap of demo";
  timeline.sites = {{.label = "big(int)", .detail = "main.c:3", .module = "demo", .bytes = {}, .peak_bytes = 0},
                    {.label = "small", .detail = "", .module = "demo", .bytes = {}, .peak_bytes = 0}};
  // An hour at ten milliseconds, a single highest sample in the middle.
  for (std::uint64_t i = 0; i < 360'000; ++i) {
    if (i > 100'000 && i < 150'000) continue;
    timeline.time_ns.push_back(i * 10'000'000);
    timeline.live_bytes.push_back(i == 200'000 ? 9'000'000 : 1'000'000 + i);
    timeline.sites[0].bytes.push_back(600'000);
    timeline.sites[1].bytes.push_back(i);
    timeline.resident.push_back({i * 10'000'000, 64'000'000});
  }
  timeline.duration_ns = 3'600'000'000'000;
  timeline.idle = spans_without_samples(timeline.time_ns, timeline.duration_ns, 1'000'000'000);
  timeline.unsampled = timeline.idle;
  timeline.sites[0].peak_bytes = 600'000;
  timeline.sites[1].peak_bytes = 200'000;
  save_timeline("timeline", timeline);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  directory = argv[1];
  small();
  hostile();
  extremes();
  large();
  time();
}
