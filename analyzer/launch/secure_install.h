// The recorder for programs under AT_SECURE. Their loader takes a preloaded library only by its plain name, from a
// folder of the system's, and only with mode u+s (ld.so(8)); the recorder in them believes only /etc/heapprof.conf.
// Both are made here, by root, and taken away again.
#pragma once

#include <string>

namespace heapprof::launch {

/// Where libheapprof.so must lie for this machine's loader: beside libc.so.6. Empty: not known.
std::string trusted_library();

/// Makes `directory` (mode 1733: whoever runs a recorded program may add a trace, none may list them), copies
/// `recorder` with mode u+s to trusted_library(), and writes the configuration, unless one exists, which stays.
/// `done` says each step in a line. False: `error` says why; what was done stays done.
bool install_trusted(const std::string& recorder, const std::string& directory, std::string& done,
                     std::string& error);

/// Undoes that: library, configuration, and the directory if it is empty. Nothing there is no error.
bool remove_trusted(const std::string& recorder, std::string& done, std::string& error);

}  // namespace heapprof::launch
