#include "analyzer/render/wrap.h"

#include <algorithm>

#include "analyzer/render/utf8.h"

namespace heapprof::render {

std::vector<std::string> wrapped(std::string_view text, std::size_t code_points) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n') lines.emplace_back();
    if (text[at] == '\n' || text[at] == ' ') {
      ++at;
      continue;
    }
    const std::string_view word = text.substr(at, std::min(text.find_first_of(" \n", at), text.size()) - at);
    if (!lines.back().empty() && length_utf8(lines.back()) + 1 + length_utf8(word) > code_points)
      lines.emplace_back();
    lines.back().append(lines.back().empty() ? "" : " ").append(word);
    at += word.size();
  }
  return lines;
}

}  // namespace heapprof::render
