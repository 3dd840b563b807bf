// Recordings found by looking into a folder: the newest one, which a command reads when none is named, and the one in
// which a process went on that executed another program.
#pragma once

#include <cstddef>
#include <string>

#include "common/trace_format.h"

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

/// The last recording of the process that recorded `path` (its header is `header`), when that executed other
/// programs: of the files beside it that are named as traces, or as `path` with .1, .2, ... behind it. Empty: there is
/// no later one.
std::string find_last_trace_of_process(const std::string& path, const FileHeader& header);

}  // namespace heapprof::cli
