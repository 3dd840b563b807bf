// The resident memory of the process, from /proc/self/statm.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

struct ResidentMemory {
  std::uint64_t resident_bytes = 0;
  std::uint64_t shared_bytes = 0;  ///< of the resident bytes: pages of files and of shared memory
};

/// Opens the file. Call this once per trace, before threads read.
void open_resident_memory() noexcept;
/// In a forked child: closes the file, which describes the parent.
void close_resident_memory() noexcept;

/// The process's memory now; zeros when it cannot be read.
ResidentMemory resident_memory() noexcept;

}  // namespace heapprof::recorder
