// A flame graph as one svg file that is its own viewer.
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
  std::string title{};            ///< "Peak heap of redis-server"
  std::string cost = "bytes";     ///< what a value is, in words: "bytes live at the peak"
  Unit unit = Unit::kBytes;
  /// Whole of which percentages are taken; 0: the sum of the tree.
  std::uint64_t total = 0;
  /// Label and text, shown under the title: {"Program", "redis-server --port 6379"}, {"Peak", "at 12.3 s"}.
  std::vector<std::pair<std::string, std::string>> context{};
  /// The file holds at most about this many frames (some 20 bytes each); smaller ones are merged into one
  /// per parent, and the picture says how many and how much.
  std::uint32_t max_frames = 50'000;
  /// The tree's stacks were added innermost first.
  bool bottom_up = false;
  /// The tree compares two traces (FlameTree::add_before): a stack is as wide as the larger of its values, so that
  /// nothing vanishes, and its colour says what became of it.
  bool comparison = false;
};

/// One self-contained file for any browser: no network, no font, no library. With JavaScript it searches,
/// zooms, explains and is driven by mouse or keyboard; without (an <img>, a mail) it is a picture of the
/// outermost rows. Follows the light or dark preference of the page.
///
/// The address may carry `#search=TEXT`, `regex=1`, `zoom=NODE`, `view=flame`, joined by `&`.
void write_flamegraph_svg(const FlameTree& tree, const FlameOptions& options, const TextSink& out);

}  // namespace heapprof::render
