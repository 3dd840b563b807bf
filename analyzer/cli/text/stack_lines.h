// Which frames of a stack are printed, and which are folded into one line, so that the lines go to the program's own
// code:
//
//   1. Frames outside of the outermost program frame start the process or a thread. After main they are left out.
//   2. Recursion: the innermost cycle and the outermost call are printed, the repetitions between are folded.
//   3. Consecutive library frames, wherever they stand, are folded.
//   4. If the lines still exceed the limit, those in the middle are left out.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"

namespace heapprof::cli {

/// What a frame is to the reader of a stack.
enum class FrameRole {
  kProgram,  ///< code of the program, of a third party, or unresolved
  kLibrary,  ///< allocators, helpers, the standard library, the runtime
  kHidden,   ///< not shown (--only-own): folded like kLibrary, even a single frame
};

struct StackLine {
  enum class Kind {
    kFrame,      ///< one frame
    kLibrary,    ///< folded library frames
    kRecursion,  ///< folded repetitions
    kStart,      ///< folded frames that start the process or a thread
    kMore,       ///< left out because of the limit
  };
  Kind kind = Kind::kFrame;
  std::size_t first = 0;  ///< position of the innermost frame
  std::size_t count = 1;  ///< number of frames
  friend bool operator==(const StackLine&, const StackLine&) = default;
};

/// The lines of the stack `frames` (innermost first), at most `limit` of them; 0: no limit, and nothing is folded.
/// `roles` has as many elements as `frames`. A stack without program frames is not folded, except for recursion,
/// even if its frames are kHidden.
std::vector<StackLine> lines_of_stack(std::span<const Frame> frames, std::span<const FrameRole> roles,
                                      std::size_t limit);

/// The text of a line that is no kFrame: "… 6 frames, std::vector<…>::push_back to operator new …", "… 1 frame,
/// malloc …". Clean UTF-8.
std::string folded_text(const StackLine& line, std::span<const Frame> frames);

}  // namespace heapprof::cli
