// The address of the code that a frame executes. If the frame made a call, that is a return address, which may
// already belong to the next function; if a signal interrupted the frame, it is the next instruction. lookup()
// returns the right address for both kinds.
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
