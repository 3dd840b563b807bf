// The address of the code that a frame executes. A frame that made a call is found by its return address, which may
// already belong to the next function; an interrupted frame by the next instruction. This type decides once which
// address to look up for each.
#pragma once

#include <cstdint>

namespace heapprof::unwind {

struct FrameAddress {
  std::uint64_t pc;
  bool interrupted;  ///< a signal interrupted the frame at pc; false: pc is a return address

  /// The address by which the frame's module and unwind information are found.
  constexpr std::uint64_t lookup() const noexcept { return interrupted ? pc : pc - 1; }
};

}  // namespace heapprof::unwind
