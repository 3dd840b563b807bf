// A capture without memory of the thread: for a signal handler that interrupted the recorder, and when there is no
// memory.
#pragma once

#include "common/ids.h"
#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::unwind {

/// Returns the node of the innermost frames, about 100. If the stack has more, their root is `reason`. Uses 1 KB of
/// stack.
NodeId capture_bounded(const arch::EntryRegisters& entry, const Definitions& definitions, Truncation reason) noexcept;

}  // namespace heapprof::unwind
