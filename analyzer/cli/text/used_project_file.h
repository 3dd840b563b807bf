// The project file whose settings this run uses, for heads of texts and for JSON documents.
#pragma once

#include <string>

namespace heapprof::cli {

/// Its path; empty: none. Set once, when the command line is read (cli/options/project_file.h).
inline std::string used_project_file;

}  // namespace heapprof::cli
