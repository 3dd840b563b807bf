// The call path that most of the memory has in common: the functions through which it was allocated, outermost first.
//
// The path ends at the innermost function below which at least kMinPathShare of all weight was allocated. One below
// which the program allocated nearly everything (kNearlyAll) says no more than main. If no function is left, the path
// ends at one that the caller names: that of the first call site. On the path are the callers that at least
// kSameMemory of that function's weight have in common. Instances of one template count as one function.
//
// Helpers, standard libraries, the runtime, main functions, start-up code and functions without a name are never on
// the path.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/held.h"
#include "analyzer/findings/helpers.h"

namespace heapprof::findings {

// Shares, from 0 to 1: of all weight, of all allocated bytes, and of the weight of the path's last function.
inline constexpr double kMinPathShare = 0.5;
inline constexpr double kNearlyAll = 0.95;
inline constexpr double kSameMemory = 0.9;

struct PathFunction {
  FrameRef frame;  ///< in the stack that weighs most, if the function is in it
  /// The share of the weight below this function that is below the last function of the path, too; 0 to 1. Less for a
  /// function that also does other work, such as an event loop.
  double share = 0;
};

struct CommonPath {
  std::vector<PathFunction> functions;  ///< outermost first; never empty
  Held held;                            ///< of the stacks through the last function
};

/// `weight` is by node of the profile, and says how much a stack counts, 0 or more; `held` is what it holds.
/// `otherwise` is the function at which the path ends if none has most of the weight; exists() is false: no path
/// then.
std::optional<CommonPath> find_common_path(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held,
                                           std::span<const double> weight, FrameRef otherwise);

}  // namespace heapprof::findings
