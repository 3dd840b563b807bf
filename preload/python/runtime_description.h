// The beginning of _PyRuntime, by which an interpreter from 3.13 on describes itself to debuggers (_Py_DebugOffsets
// in pycore_debug_offsets.h). layout.h has what follows: the groups of byte offsets.
#pragma once

#include <cstdint>

namespace heapprof::python {

struct RuntimeDescription {
  char cookie[8];
  std::uint64_t version;        ///< PY_VERSION_HEX
  std::uint64_t free_threaded;  ///< not 0: there is no global interpreter lock

  /// False before 3.13, and in a process that has something else at this address.
  bool exists() const noexcept {
    constexpr char kCookie[] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};
    return __builtin_memcmp(cookie, kCookie, sizeof kCookie) == 0;
  }
};
static_assert(sizeof(RuntimeDescription) == 3 * 8);

}  // namespace heapprof::python
