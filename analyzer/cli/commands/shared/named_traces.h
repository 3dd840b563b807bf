// The recordings that arguments name: files, and directories of recordings.
#pragma once

#include <string>
#include <vector>

namespace heapprof::cli {

/// The traces that the arguments name: those in a directory by name. Throws OutputError or trace::TraceError if an
/// argument is neither a trace nor a directory with traces.
std::vector<std::string> traces_named(const std::vector<std::string>& arguments);

}  // namespace heapprof::cli
