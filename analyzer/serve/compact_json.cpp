#include "analyzer/serve/compact_json.h"

#include <utility>

namespace heapprof::serve {

void JsonCompactor::append(std::string_view piece, std::string& text) {
  std::size_t kept = text.size();
  text.resize(kept + piece.size());
  for (const char c : piece) {
    if (in_string_) {
      if (escaped_) escaped_ = false;
      else if (c == '\\') escaped_ = true;
      else if (c == '"') in_string_ = false;
    } else if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
      continue;
    } else if (c == '"') {
      in_string_ = true;
    }
    text[kept++] = c;
  }
  text.resize(kept);
}

void compact_json(std::string& text) {
  std::string compact;
  JsonCompactor().append(text, compact);
  if (text.ends_with('\n') && !compact.ends_with('\n')) compact += '\n';
  text = std::move(compact);
}

}  // namespace heapprof::serve
