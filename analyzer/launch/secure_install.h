// Installs the recorder for programs under AT_SECURE, and removes it, as root. The loader of such a program preloads
// a library only by its plain name, from a system directory, and only with mode u+s (ld.so(8)); the recorder in it
// reads its settings only from /etc/heapprof.conf.
#pragma once

#include <string>

namespace heapprof::launch {

/// The path of libheapprof.so at which this machine's loader finds it: beside libc.so.6. Empty: not known.
std::string trusted_library();

/// Creates `directory` (mode 1733: everybody may add a trace, only root may list them), copies `recorder` with mode
/// u+s to trusted_library(), and writes the configuration, unless there is one, which is not changed. `done` gets a
/// line for each step. False: `error` has the reason; earlier steps are not undone.
bool install_trusted(const std::string& recorder, const std::string& directory, std::string& done,
                     std::string& error);

/// Removes the library, the configuration, and the directory if it is empty. It is no error if one of them does not
/// exist.
bool remove_trusted(const std::string& recorder, std::string& done, std::string& error);

}  // namespace heapprof::launch
