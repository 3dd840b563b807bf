// Who keeps what it allocates: functions by the memory that was allocated in them and in everything they call, and
// that is still held.
//
//   weight = bytes held * share of the bytes that are held * share of the blocks that are held
//
// A function that frees most of what it allocates weighs little, however much it holds at the moment. A block that a
// realloc moves is one block that goes on: what it was before counts neither as allocated nor as freed. Where several
// functions contain the same memory (at least kSameShare of it), only the innermost counts, own code before third
// parties' code that is built into the program.
//
// If own code holds kMinOwnShare of everything below one function, and no function of own code among the first holds
// as much, that function is the last one: what a library allocates is often held by many of its functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/held.h"
#include "analyzer/findings/helpers.h"

namespace heapprof::findings {

/// Functions that have at least this share of their memory in common hold the same memory.
inline constexpr double kSameShare = 0.95;

/// Of all bytes that are held, 0 to 1.
inline constexpr double kMinOwnShare = 0.8;

struct Keeper {
  std::uint32_t function = 0;  ///< in CodeFrames::functions()
  FrameRef frame;              ///< its innermost frame in the stack that holds most
  /// If the function is not own code: the innermost frame of own code that calls it in that stack. exists() is false:
  /// it is own code, or there is none.
  FrameRef own_caller;
  Held held;                ///< inclusive: allocated in the function and below it, recursion counted once
  Held allocated;           ///< inclusive: everything that was allocated there, without what a realloc moved
  double bytes_share = 0;   ///< held / allocated, 0 to 1
  double blocks_share = 0;  ///< held / allocated, 0 to 1
  double weight = 0;
};

/// The `max` functions with the highest weight. Helpers, standard libraries, the runtime, main functions and start-up
/// code are left out.
std::vector<Keeper> find_keepers(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held,
                                 std::size_t max = 5);

}  // namespace heapprof::findings
