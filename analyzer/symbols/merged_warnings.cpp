#include "analyzer/symbols/merged_warnings.h"

#include <algorithm>
#include <cstddef>

#include "analyzer/base/base_name.h"

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
  };
  std::vector<Warning> merged;
  for (std::size_t i = 0; i < warnings_by_module.size(); ++i) {
    const std::string& path = modules[i].path;
    for (const std::string& warning : warnings_by_module[i]) {
      const bool of_file = !path.empty() && warning.starts_with(path + ": ");
      const std::string text = of_file ? warning.substr(path.size()) : warning;
      auto same = std::find_if(merged.begin(), merged.end(), [&](const Warning& other) {
        return other.text == text && other.paths.empty() != of_file;
      });
      if (same == merged.end()) same = merged.insert(merged.end(), Warning{text, {}});
      if (of_file && std::find(same->paths.begin(), same->paths.end(), path) == same->paths.end())
        same->paths.push_back(path);
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
