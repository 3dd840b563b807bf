// The recording that a command reads when none is named: the newest one in the current folder.
#pragma once

#include <cstddef>
#include <string>

namespace heapprof::cli {

/// Whether the file at `path` begins as a trace does.
bool is_trace(const std::string& path);

/// Whether `path` is named as traces are: *.heapprof, *.hprof, also with .1, .2, ... behind it.
bool named_as_trace(const std::string& path);

struct NewestTrace {
  std::string path;       ///< empty: there is none
  std::size_t count = 0;  ///< traces in the folder
};

/// The one that was last written to, of the files in `folder` that are named as traces and are some (Java's heap
/// dumps have the same ending).
NewestTrace find_newest_trace(const std::string& folder = ".");

}  // namespace heapprof::cli
