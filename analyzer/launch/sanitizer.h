// Recognizes programs that are built with a sanitizer. A sanitizer replaces malloc: its run-time library ends the
// program when another library is preloaded before it, and where it is linked into the executable, a recording would
// be empty. So the launcher refuses such programs.
#pragma once

#include <string>

namespace heapprof::launch {

/// The sanitizer that the ELF file at `path` (64-bit, in the byte order of this machine) is built with, such as
/// "AddressSanitizer"; empty: none. Searches the dynamic symbols, since every such program imports or exports some of
/// the sanitizer's.
std::string sanitizer_of(const std::string& path);

}  // namespace heapprof::launch
