// Paths in the root directory of another system.
#pragma once

#include <string>

namespace heapprof::symbols {

/// The absolute `path` of a system whose root directory is `root` here. Symbolic links, including absolute ones, and
/// ".." do not leave `root`. The file need not exist. An empty `root` gives `path` itself.
std::string path_in_sysroot(const std::string& root, const std::string& path);

}  // namespace heapprof::symbols
