// The project file whose settings this run uses, for heads of texts and for JSON documents.
#pragma once

#include <string>

namespace heapprof::cli {

/// Its path; empty: none. Set once, when the command line is read (cli/options/project_file.h).
inline std::string used_project_file;

/// A line for the head of a text; empty: no file is used. Not clean.
inline std::string project_file_words() {
  return used_project_file.empty() ? "" : "settings of " + used_project_file + " (--no-config omits them)";
}

}  // namespace heapprof::cli
