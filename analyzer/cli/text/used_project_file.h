// The project file whose settings this run uses, for heads of texts and for JSON documents.
#pragma once

#include <string>

namespace heapprof::cli {

/// Its path; empty: none. Set once, when the command line is read (cli/options/project_file.h).
inline std::string used_project_file;

/// Whether --config names it. Otherwise it was found in the current directory or above it.
inline bool project_file_was_named = false;

/// A line for the head of a text; empty: no file is used. Not clean.
inline std::string project_file_words() {
  if (used_project_file.empty()) return {};
  return "settings of " + used_project_file + (project_file_was_named ? "" : " (--no-config omits them)");
}

}  // namespace heapprof::cli
