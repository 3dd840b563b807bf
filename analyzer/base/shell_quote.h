// Command lines that the user can copy into a shell.
#pragma once

#include <string>

namespace heapprof {

/// `word` as one word of a POSIX shell: in single quotes if a character of it needs them.
inline std::string shell_quoted(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t\n'\"\\$`&|;<>()*?[]#~!{}") == std::string::npos) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace heapprof
