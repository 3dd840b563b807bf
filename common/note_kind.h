// What a note in a trace is about: the `size` of its text record (TextKind::kNote in common/trace_format.h).
#pragma once

#include <cstdint>

namespace heapprof {

enum class NoteKind : std::uint32_t {
  kUntyped = 0,      ///< written by a recorder that did not know kinds yet: only the text tells
  kInformation = 1,  ///< the figures are not affected
  kNotRecorded = 2,  ///< some allocations or frees of the program are not recorded
};

}  // namespace heapprof
