// A flame graph as an SVG file that includes its viewer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/render/flame_tree.h"
#include "analyzer/render/text_sink.h"
#include "analyzer/render/units.h"

namespace heapprof::render {

struct FlameOptions {
  std::string title{};         ///< "Peak heap of redis-server"
  std::string cost = "bytes";  ///< what values are: "bytes live at the peak"
  Unit unit = Unit::kBytes;
  /// The total of which percentages are computed; 0: the sum of the tree.
  std::uint64_t total = 0;
  /// Label and text, shown under the title: {"Program", "redis-server --port 6379"}, {"Peak", "at 12.3 s"}.
  std::vector<std::pair<std::string, std::string>> context{};
  /// Max frames in the file, about 20 bytes each. The smallest beyond it are merged into one per parent, and the
  /// picture shows their number and sum.
  std::uint32_t max_frames = 50'000;
  /// Labels have parameters and template arguments. Otherwise only the details of a frame have them.
  bool full_names = false;
  /// The tree's stacks were added innermost first.
  bool bottom_up = false;
  /// The tree compares two traces (FlameTree::add_before()). A frame is as wide as the larger of its two values, so
  /// that removed stacks are visible, and its colour shows the change.
  bool comparison = false;
};

/// Writes a self-contained file for any browser: no network, no font, no library. With JavaScript it can be searched
/// and zoomed by mouse and keyboard; without (in an <img> or a mail) it is a picture of the outermost rows. It
/// follows the light or dark preference of the page.
///
/// The address may have the parameters `#search=TEXT`, `regex=1`, `zoom=NODE` and `view=flame`, joined by `&`.
void write_flamegraph_svg(const FlameTree& tree, const FlameOptions& options, const TextSink& out);

}  // namespace heapprof::render
