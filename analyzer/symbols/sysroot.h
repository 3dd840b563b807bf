// Paths of another machine's file system, kept below a folder of ours.
#pragma once

#include <string>

namespace heapprof::symbols {

/// Where `path` (absolute) of the machine whose files lie in `root` is found here. Symbolic links, absolute
/// ones too, and ".." stay inside `root`. With an empty root: `path` itself. What does not exist gives the
/// path it would have.
std::string path_in_sysroot(const std::string& root, const std::string& path);

}  // namespace heapprof::symbols
