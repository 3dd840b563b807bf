// libheapprof.so, found from where this program lies.
#pragma once

#include <string>

namespace heapprof::launch {

/// The absolute path of the recorder: ../preload/ of a build folder, or ../lib/ of an installation (also
/// lib/<multiarch>, lib64). False: `error` is one line saying what to do. So it is too when the path cannot be
/// preloaded: in LD_PRELOAD both space and colon separate names, and nothing quotes them (ld.so(8)).
bool find_recorder(std::string& path, std::string& error);

/// Where this program lies, for advice to its user; "heapprof" where that can't be known.
std::string own_path();

/// The value for LD_PRELOAD: `recorder` first, so that its functions are found before those of other preloaded
/// libraries, then what the user has there (`before`), without `recorder` itself.
std::string preload_list(const std::string& recorder, const std::string& before);

}  // namespace heapprof::launch
