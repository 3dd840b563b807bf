// The boxes of a flame graph.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/render/flame_tree.h"

namespace heapprof::render {

/// The tree in preorder, siblings by descending value, small frames merged.
struct FlameLayout {
  static constexpr std::uint32_t kMerged = UINT32_MAX;

  struct Box {
    std::uint32_t depth;     // 0: the root
    std::uint32_t function;  // kMerged: `line` frames are merged in this box
    std::uint32_t line;
    bool several_lines;
    std::uint64_t value;
    std::uint64_t left;    // value to the left of it
    std::uint64_t before;  // in a comparison: the value of the earlier trace, and of the later
    std::uint64_t after;
  };
  std::vector<Box> boxes;
  std::uint64_t merged_frames = 0;
  std::uint64_t merged_value = 0;
  std::uint32_t rows = 0;
};

/// Lays out the frames of `tree`. If it has more than `max_frames`, the smallest are merged into one box per parent.
/// `comparison`: a box is as wide as the larger of its two values.
FlameLayout lay_out(const FlameTree& tree, std::uint32_t max_frames, bool comparison);

}  // namespace heapprof::render
