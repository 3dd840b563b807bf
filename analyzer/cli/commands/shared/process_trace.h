// The recording of a running process that the user names by its process id.
#pragma once

#include <cstdint>
#include <string>

namespace heapprof::cli {

/// The path of the trace that process `pid` is writing. Throws trace::TraceError, with why there is none: no such
/// process, no permission, not recorded.
std::string trace_of_recorded_process(std::uint32_t pid);

}  // namespace heapprof::cli
