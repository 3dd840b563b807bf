// The name of a file without its directories.
#pragma once

#include <string>

namespace heapprof {

/// The part of a path after its last slash; the whole path if it has none. Empty if the path ends in a slash.
inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// The name of a source file where space is short: the base name, and its folder if many folders have a file of this
/// name (`json/__init__.py`). The page does the same (names.js).
inline std::string source_name(const std::string& path) {
  const std::string base = base_name(path);
  if (base != "__init__.py" && base != "__main__.py" && base != "mod.rs") return base;
  std::string folder = path.substr(0, path.size() - base.size());
  while (folder.ends_with('/')) folder.pop_back();
  return folder.empty() ? base : base_name(folder) + '/' + base;
}

}  // namespace heapprof
