#include "analyzer/cli/suppressions.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace heapprof::cli {

bool pattern_fits(const std::string& pattern, const std::string& name) {
  std::string_view rest = pattern;
  std::string_view text = name;
  const bool at_begin = !rest.empty() && rest.front() == '^';
  if (at_begin) rest.remove_prefix(1);
  const bool at_end = !rest.empty() && rest.back() == '$';
  if (at_end) rest.remove_suffix(1);
  bool tied = at_begin;  // the next piece must stand right here
  for (;;) {
    const std::size_t star = rest.find('*');
    const std::string_view piece = rest.substr(0, star);
    const bool last = star == std::string_view::npos;
    if (last && at_end) {
      if (tied) return text == piece;
      return text.size() >= piece.size() && text.substr(text.size() - piece.size()) == piece;
    }
    const std::size_t found = tied ? (text.substr(0, piece.size()) == piece ? 0 : std::string_view::npos)
                                   : text.find(piece);
    if (found == std::string_view::npos) return false;
    if (last) return true;
    text.remove_prefix(found + piece.size());
    rest.remove_prefix(star + 1);
    tied = false;
  }
}

std::string Suppressions::add(const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    line.erase(std::min(line.find_last_not_of(" \t\r") + 1, line.size()));
    if (line.empty() || line[0] == '#') continue;
    constexpr std::string_view kPrefix = "leak:";
    if (line.compare(0, kPrefix.size(), kPrefix) != 0 || line.size() == kPrefix.size()) return line;
    patterns_.push_back(line.substr(kPrefix.size()));
  }
  return {};
}

bool Suppressions::fits(const std::vector<Frame>& stack) const {
  return std::any_of(stack.begin(), stack.end(), [&](const Frame& frame) {
    return std::any_of(patterns_.begin(), patterns_.end(), [&](const std::string& pattern) {
      return (!frame.function.empty() && pattern_fits(pattern, frame.function)) ||
             (!frame.file.empty() && pattern_fits(pattern, frame.file)) ||
             (!frame.module->path.empty() && pattern_fits(pattern, frame.module->path));
    });
  });
}

}  // namespace heapprof::cli
