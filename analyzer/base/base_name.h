#pragma once

#include <string>

namespace heapprof {

/// The part of a path after its last slash.
inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace heapprof
