#include "analyzer/symbols/merged_warnings.h"

#include <cstddef>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/base/chosen_key_hash.h"

namespace heapprof::symbols {

namespace {

/// "a", "a and b", "a, b, c, d and 5 other files".
std::string join(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 4;
  std::string text;
  const bool all = names.size() <= kMaxNames + 1;
  const std::size_t shown = all ? names.size() : kMaxNames;
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : all && i + 1 == shown ? " and " : ", ") + names[i];
  return all ? text : text + " and " + std::to_string(names.size() - shown) + " other files";
}

}  // namespace

std::vector<std::string> merge_warnings(const std::vector<Module>& modules,
                                        const std::vector<std::vector<std::string>>& warnings_by_module) {
  struct Warning {
    std::string text;                ///< after the path of a file, from ": " on; or the whole warning
    std::vector<std::string> paths;  ///< empty: not about a file
    std::unordered_set<std::string_view, ChosenTextHash> known_paths;
  };
  std::vector<Warning> merged;
  std::map<std::pair<std::string, bool>, std::size_t> positions;  // by text and whether it is about a file
  for (std::size_t i = 0; i < warnings_by_module.size(); ++i) {
    const std::string& path = modules[i].path;
    for (const std::string& warning : warnings_by_module[i]) {
      const bool of_file = !path.empty() && warning.starts_with(path + ": ");
      std::string text = of_file ? warning.substr(path.size()) : warning;
      const auto [position, is_new] = positions.try_emplace({text, of_file}, merged.size());
      if (is_new) merged.push_back({std::move(text), {}, {}});
      Warning& same = merged[position->second];
      if (of_file && same.known_paths.insert(path).second) same.paths.push_back(path);
    }
  }
  std::vector<std::string> texts;
  for (Warning& warning : merged) {
    if (warning.paths.size() > 1)
      for (std::string& path : warning.paths)
        if (!path.ends_with('/')) path = base_name(path);
    texts.push_back(join(warning.paths) + warning.text);
  }
  return texts;
}

}  // namespace heapprof::symbols
