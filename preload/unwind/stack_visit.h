// Visits the C frames of a stack with their positions on the stack, for the rare case that a node does not suffice.
// A visit uses no remembered stacks and changes none.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/unwind/stack_bounds.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::unwind {

struct VisitedFrame {
  ModuleId module;
  std::uint32_t node_flags;  ///< kNode... of trace_format.h
  std::uint64_t offset;
  std::uint64_t begin;  ///< the frame's variables are in [begin, end); empty: unknown
  std::uint64_t end;
  bool hidden;  ///< see hide_frame()
};

/// Calls visit(context, frame) for each frame from the innermost to the outermost, until it returns false. Returns
/// why the outermost frame was not reached; kNone: it was. `bounds`: of the calling thread, and not of its
/// ThreadUnwinder.
Truncation visit_stack(const arch::EntryRegisters& entry, const Definitions& definitions, StackBounds& bounds,
                       bool (*visit)(void* context, const VisitedFrame& frame), void* context) noexcept;

/// How many outermost frames a stack of `depth` frames loses (Settings::max_depth).
std::uint32_t frames_to_omit(std::uint32_t depth) noexcept;

}  // namespace heapprof::unwind
