// Counts the stacks whose Python frames are left out, by reason, and says so in the trace.
#pragma once

#include <cstdint>

#include "preload/recorder/trace/stream.h"

namespace heapprof::python {

enum class LeftOut : std::uint8_t {
  kHandler,     ///< a signal handler is on the stack
  kUnreadable,  ///< a pointer of the interpreter is wrong
  kTooMany,     ///< more frames than ThreadFrames::kMaxFrames
  kNoMemory,
  kNoPlace,      ///< there are fewer evaluations than Python frames
  kNotProbed,    ///< it cannot be tested whether memory is readable
  kFinalized,    ///< another thread finalizes the interpreter
  kOtherThread,  ///< another thread has made the PyThreadState
};
inline constexpr unsigned kLeftOutReasons = 8;

/// The reason when memory of the interpreter was not found readable.
LeftOut unreadable_reason() noexcept;

/// Counts a stack. The first one of each reason adds a note to the trace.
void leave_out(LeftOut reason, recorder::Stream& stream) noexcept;

/// Adds the numbers to the trace, at its end, if there are any.
void write_left_out(recorder::Stream& stream) noexcept;

/// Begins at 0 again, in a forked child that begins its own trace.
void forget_left_out() noexcept;

}  // namespace heapprof::python
