// Debug files from the servers in DEBUGINFOD_URLS. libdebuginfod is loaded at the first request, so that it need not
// be installed.
#pragma once

#include <string>

namespace heapprof::symbols {

/// Opens the debug file with this build ID (hex), from the local cache of debuginfod or a server; sets `path` to its
/// path in the cache. Returns a descriptor; -1, with `reason`, if there is none. Blocks until the servers have
/// answered.
int fetch_debug_file(const std::string& build_id, std::string& path, std::string& reason);

}  // namespace heapprof::symbols
