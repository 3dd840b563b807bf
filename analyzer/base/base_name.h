#pragma once

#include <string>

namespace heapprof {

/// The part of a path behind its last slash.
inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace heapprof
