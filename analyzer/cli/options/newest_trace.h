// Finds recordings in a directory: the newest one, which commands read when none is named, and the last one of a
// process that executed other programs.
#pragma once

#include <cstddef>
#include <string>

#include "common/trace_format.h"

namespace heapprof::cli {

/// Whether the file at `path` is regular and begins with the magic bytes of a trace.
bool is_trace(const std::string& path);

/// Whether the name of `path` is *.heapprof or *.hprof, also with .1, .2, ... appended.
bool is_named_as_trace(const std::string& path);

struct NewestTrace {
  std::string path;       ///< empty: there is none
  std::size_t count = 0;  ///< traces in the directory
};

/// The trace in `directory` that was last written to, of those that are also named as traces. (Heap dumps of Java
/// have the same ending and are not traces.)
NewestTrace find_newest_trace(const std::string& directory = ".");

/// The last recording of the process that recorded `path`, whose header is `header`: a process that executes another
/// program begins a new trace. Searches the files beside `path` that are named as traces, or as `path` with .1, .2,
/// ... appended. Empty: there is no later one.
std::string find_last_trace_of_process(const std::string& path, const FileHeader& header);

}  // namespace heapprof::cli
