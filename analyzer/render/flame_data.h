// The data of a flame graph's viewer.
#pragma once

#include "analyzer/render/flame_colours.h"
#include "analyzer/render/flame_layout.h"
#include "analyzer/render/flamegraph.h"

namespace heapprof::render {

/// Writes the frames as JSON for assets/flame_tree.js: in preorder, one array per property. Values above 2^53, which
/// a JavaScript number cannot hold, are repeated as text in "exact".
void write_flame_data(const FlameTree& tree, const FlameLayout& layout, const FlameModules& modules,
                      const FlameOptions& options, const TextSink& out);

}  // namespace heapprof::render
