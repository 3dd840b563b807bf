// Programs built with a sanitizer bring a malloc of their own: the sanitizer's. Its run-time library ends the program
// when another one is preloaded before it, and where it is linked into the executable it keeps every call to itself,
// so that a recording would be empty. Better said before the program starts.
#pragma once

#include <string>

namespace heapprof::launch {

/// "AddressSanitizer", say, when the ELF file at `path` (64-bit, of our own byte order) is built with one; else
/// empty. Told by the names that its dynamic symbols have, which every such program refers to or exports.
std::string sanitizer_of(const std::string& path);

}  // namespace heapprof::launch
