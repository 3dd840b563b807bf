// The symbol options as words of a command line, for commands that run others.
#pragma once

#include <string>
#include <vector>

#include "analyzer/symbols/symbolizer.h"

namespace heapprof::cli {

inline std::vector<std::string> symbol_words(const symbols::Options& symbols) {
  std::vector<std::string> words;
  if (!symbols.sysroot.empty()) words.push_back("--sysroot=" + symbols.sysroot);
  for (const std::string& directory : symbols.debug_dirs) words.push_back("--debug-dir=" + directory);
  if (!symbols.inlines) words.emplace_back("--no-inlines");
  if (symbols.short_names) words.emplace_back("--short-names");
  if (!symbols.symbols) words.emplace_back("--no-symbols");
  if (symbols.debuginfod) words.emplace_back("--debuginfod");
  if (symbols.cache_directory.empty()) words.emplace_back("--no-symbol-cache");
  return words;
}

}  // namespace heapprof::cli
