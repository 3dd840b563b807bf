// Debug files from the servers that DEBUGINFOD_URLS names. libdebuginfod is loaded when the first file is
// asked for, so that nothing of it is needed, or in memory, otherwise.
#pragma once

#include <string>

namespace heapprof::symbols {

/// A descriptor of the debug file with this build id (hex), from the local cache or a server; -1 with
/// `reason` set when there is none. May take as long as the servers do.
int fetch_debug_file(const std::string& build_id, std::string& path, std::string& reason);

}  // namespace heapprof::symbols
