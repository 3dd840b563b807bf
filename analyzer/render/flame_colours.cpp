#include "analyzer/render/flame_colours.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/render/palette.h"

namespace heapprof::render {

FlameModules rank_modules(const FlameTree& tree, bool bottom_up) {
  std::map<std::string, std::uint64_t> own;
  for (const auto& function : tree.functions()) own.try_emplace(function.module, 0);
  const auto nodes = tree.nodes();
  std::vector<std::size_t> innermost(nodes.size());
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    innermost[i] = bottom_up && nodes[i].parent != FlameTree::kRoot ? innermost[nodes[i].parent] : i;
    own[tree.functions()[nodes[innermost[i]].function].module] += nodes[i].self;
  }
  std::vector<std::pair<std::string, std::uint64_t>> sorted(own.begin(), own.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  FlameModules modules;
  for (auto& [name, value] : sorted) {
    modules.index.emplace(name, static_cast<std::uint32_t>(modules.names.size()));
    modules.names.push_back(name);
    modules.values.push_back(value);
  }
  modules.hues = hues_of(modules.names);
  return modules;
}

unsigned shade_of(const std::string& function_name) { return stable_hash(function_name) % kShades; }

std::string grade_class(int grade) { return "g" + std::to_string(grade + kGrades); }

std::string grade_rules() {
  std::string out;
  for (const bool dark : {false, true}) {
    if (dark) out += "@media (prefers-color-scheme:dark){\n";
    for (int grade = -kGrades; grade <= kGrades; ++grade) {
      const std::string colour = change_colour(grade, dark);
      out += "." + grade_class(grade) + "{fill:" + colour + ";background:" + colour + "}";
    }
    out += dark ? "\n}\n" : "\n";
  }
  return out;
}

std::string colour_rules(const FlameModules& modules) {
  std::vector<unsigned> hues(modules.hues);
  hues.push_back(kGrey);
  std::sort(hues.begin(), hues.end());
  hues.erase(std::unique(hues.begin(), hues.end()), hues.end());
  std::string out;
  for (const bool dark : {false, true}) {
    if (dark) out += "@media (prefers-color-scheme:dark){\n";
    for (const unsigned hue : hues) {
      const std::string name = ".h" + std::to_string(hue);
      for (unsigned shade = 0; shade < kShades; ++shade) {
        const std::string colour = fill_colour(hue, shade, dark);
        out += name + "s" + std::to_string(shade) + "{fill:" + colour + "}";
      }
      const std::string line = line_colour(hue, dark);
      out += name + "l{fill:" + line + ";background:" + line + "}\n";
    }
    if (dark) out += "}\n";
  }
  return out;
}

}  // namespace heapprof::render
