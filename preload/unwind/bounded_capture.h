// A capture that does not use the thread's data: for a signal handler that interrupted the recorder, and if there is
// no memory.
#pragma once

#include "common/ids.h"
#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/unwind/definitions.h"

namespace heapprof::unwind {

/// Returns the node of a stack of at most 112 frames, the innermost ones. If there are more, the root is a truncation
/// root with `reason`. Uses 1 KB of stack.
NodeId capture_bounded(const arch::EntryRegisters& entry, const Definitions& definitions, Truncation reason) noexcept;

}  // namespace heapprof::unwind
