// Finds libheapprof.so, from the path of this program.
#pragma once

#include <string>

namespace heapprof::launch {

/// The absolute path of the recorder: in ../preload/ of a build directory, or in the directory of an installation
/// (meson's libdir; otherwise ../lib, ../lib/<multiarch> and ../lib64). False, with `error`: there is none, or its
/// path cannot be preloaded, because spaces and colons separate the names in LD_PRELOAD and cannot be quoted
/// (ld.so(8)).
bool find_recorder(std::string& path, std::string& error);

/// The path of this program, for messages; "heapprof" if it is not known.
std::string own_path();

/// The value for LD_PRELOAD: `recorder` first, so that its functions precede those of other preloaded libraries, then
/// the libraries of `before`, the user's value, without `recorder` itself.
std::string preload_list(const std::string& recorder, const std::string& before);

}  // namespace heapprof::launch
