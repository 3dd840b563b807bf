// What `heapprof --version` prints.
#pragma once

#include <string>

namespace heapprof::cli {

/// The version. main() adds the commit, so that a new commit compiles no other file again.
inline std::string printed_version = HEAPPROF_VERSION;

}  // namespace heapprof::cli
