// The address of the code that a frame executes. A frame that made a call is found by its return address, which may
// already belong to the next function; an interrupted frame by the next instruction. This type decides once which
// address to look up for each.
#pragma once

#include <cstdint>

#include "preload/base/address_types.h"

namespace heapprof::unwind {

struct FrameAddress {
  ProgramCounter pc;
  bool interrupted;  ///< a signal interrupted the frame at pc; false: pc is a return address

  /// The address by which the frame's module and unwind information are found.
  constexpr std::uint64_t lookup() const noexcept { return interrupted ? to_address(pc) : to_address(pc) - 1; }
};

}  // namespace heapprof::unwind
