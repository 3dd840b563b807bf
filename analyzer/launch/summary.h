// What `heapprof record` says when the program has ended.
#pragma once

#include <string>

namespace heapprof::launch {

/// A line for each figure of the finished trace at `path` that a user wants to see at once, each ended by a
/// newline; of a file that can't be read, why.
std::string summarize_trace(const std::string& path);

}  // namespace heapprof::launch
