// The kind of a note in a trace: whether the note affects the figures. It is stored as `size` of the note's text
// record (TextKind::kNote in trace_format.h).
#pragma once

#include <cstdint>

namespace heapprof {

enum class NoteKind : std::uint32_t {
  kUntyped = 0,      ///< written by a recorder that did not have note kinds
  kInformation = 1,  ///< the figures are not affected
  kNotRecorded = 2,  ///< some allocations or frees of the program are not recorded
};

}  // namespace heapprof
