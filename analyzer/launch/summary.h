// What `heapprof record` says when the program has ended.
#pragma once

#include <string>

#include "analyzer/replay/analysis.h"

namespace heapprof::launch {

/// A line for each figure of the finished trace at `path` that a user wants to see at once, each ended by a
/// newline; of a file that can't be read, why. It reads the trace once: some 4 s of processor time for 100 million
/// events.
std::string summarize_trace(const std::string& path, const replay::Progress& progress);

}  // namespace heapprof::launch
