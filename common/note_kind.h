// Whether a note in a trace affects the figures: the `size` of its text record (TextKind::kNote in trace_format.h).
#pragma once

#include <cstdint>

namespace heapprof {

enum class NoteKind : std::uint32_t {
  kUntyped = 0,      ///< from a recorder that had no kinds yet
  kInformation = 1,  ///< the figures are not affected
  kNotRecorded = 2,  ///< some allocations or frees of the program are not recorded
};

}  // namespace heapprof
