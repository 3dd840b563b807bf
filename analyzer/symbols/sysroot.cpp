#include "analyzer/symbols/sysroot.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <deque>
#include <vector>

namespace heapprof::symbols {

namespace {

constexpr int kMaxLinks = 40;  // as in the kernel: path_resolution(7)

/// Inserts the components of `path` before `parts`.
void prepend(std::deque<std::string>& parts, const std::string& path) {
  std::vector<std::string> added;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    if (slash > at) added.push_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  parts.insert(parts.begin(), added.begin(), added.end());
}

}  // namespace

std::string path_in_sysroot(const std::string& root, const std::string& path) {
  if (root.empty()) return path;
  std::deque<std::string> left;
  prepend(left, path);
  std::vector<std::string> done;
  const auto joined = [&] {
    std::string result = root;
    while (result.size() > 1 && result.back() == '/') result.pop_back();
    for (const std::string& part : done) result += '/' + part;
    return result;
  };
  for (int links = 0; !left.empty();) {
    const std::string part = left.front();
    left.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(part);
    char target[PATH_MAX];
    const ssize_t size = readlink(joined().c_str(), target, sizeof target);
    if (size <= 0 || ++links > kMaxLinks) continue;
    done.pop_back();
    if (target[0] == '/') done.clear();
    prepend(left, std::string(target, static_cast<std::size_t>(size)));
  }
  return joined();
}

}  // namespace heapprof::symbols
