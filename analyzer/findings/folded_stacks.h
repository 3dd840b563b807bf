// Stacks as a reader needs them: recursion folded, and each line with the part it plays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/held.h"
#include "analyzer/findings/helpers.h"

namespace heapprof::findings {

struct StackLine {
  enum class Part : std::uint8_t {
    kAllocation,  ///< inside the call site: allocation functions, standard library, helpers (see is_helper)
    kSite,        ///< the call site
    kCaller,      ///< between the call site and main
    kMain,        ///< the program's main function
    kStartUp,     ///< outside main: start-up code of the runtime, of a thread
  };
  FrameRef frame;
  Part part = Part::kCaller;
  Origin origin = Origin::kUnresolved;
  bool is_helper = false;
  /// Frames that were folded into this line, since they repeat it or are in a cycle that returns to it. 0: none.
  std::uint32_t folded = 0;
};

/// The lines of a stack, innermost first. When a function occurs again further inside, the frames between the two are
/// left out: what remains is the outermost way to the innermost occurrence, in which each function occurs once.
std::vector<StackLine> lines_of(const CodeFrames& frames, const Helpers& helpers, std::uint32_t node);

/// Stacks that are equal when recursion is folded: the same functions and source lines. Of Scope::kOwn, those of own
/// code.
struct FoldedStack {
  std::uint32_t node = 0;    ///< the one that holds most
  Held held;                 ///< sum
  std::uint32_t stacks = 0;  ///< how many
};

/// Groups the stacks `nodes`; those that hold most first.
std::vector<FoldedStack> fold(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held,
                              std::span<const std::uint32_t> nodes);

}  // namespace heapprof::findings
