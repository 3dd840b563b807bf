// Text from files that anybody may have written.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

namespace heapprof::symbols {

/// Replaces each ASCII control character by U+FFFD, as clean_utf8() (analyzer/render/utf8.h) does: names are printed
/// to terminals.
inline void replace_control_characters(std::string& text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::none_of(text.begin(), text.end(), is_control)) return;
  std::string out;
  for (const char c : text) {
    if (is_control(c)) out += "\xef\xbf\xbd";
    else out += c;
  }
  text = std::move(out);
}

}  // namespace heapprof::symbols
