#include "analyzer/serve/compact_json.h"

namespace heapprof::serve {

void compact_json(std::string& text) {
  const bool ends_line = text.ends_with('\n');
  std::size_t kept = 0;
  bool in_string = false, escaped = false;
  for (const char c : text) {
    if (in_string) {
      if (escaped) escaped = false;
      else if (c == '\\') escaped = true;
      else if (c == '"') in_string = false;
    } else if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
      continue;
    } else if (c == '"') {
      in_string = true;
    }
    text[kept++] = c;
  }
  text.resize(kept);
  if (ends_line && !text.ends_with('\n')) text += '\n';
}

}  // namespace heapprof::serve
