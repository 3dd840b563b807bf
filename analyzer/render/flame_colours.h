// The colours of a flame graph: a hue for each module, or, in a comparison, a grade of change for each frame.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/render/flame_tree.h"

namespace heapprof::render {

/// The modules of a flame graph with their hues, those whose own frames allocate most first.
struct FlameModules {
  std::vector<std::string> names;
  std::vector<std::uint64_t> values;
  std::vector<unsigned> hues;
  std::unordered_map<std::string, std::uint32_t, ChosenTextHash> index;
};

/// `bottom_up`: the stacks of `tree` were added innermost frame first.
FlameModules rank_modules(const FlameTree& tree, bool bottom_up);

unsigned shade_of(const std::string& function_name);

/// The CSS class of a grade of change.
std::string grade_class(int grade);

/// The CSS rules `.gN` of the grades of change, for light and for dark pages.
std::string grade_rules();

/// The CSS rules `.hNsM` (fills) and `.hNl` (lines) of the hues of `modules`, for light and for dark pages.
std::string colour_rules(const FlameModules& modules);

}  // namespace heapprof::render
