// Visits the C frames of a stack with their positions on the stack, for the case that a node does not suffice. A
// visit changes no remembered stack.
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
  bool hidden;                 ///< see hide_frame()
  NodeId node;                 ///< of the stack that begins with this frame; kNone: not known
  std::uint32_t outer_frames;  ///< number of frames outside of this one, if the node is known
};

/// Calls visit(context, frame) for each frame from the innermost to the outermost, until it returns false. Returns
/// why the outermost frame was not reached; kNone: it was. `bounds`: of the calling thread, and not of its
/// ThreadUnwinder. `unwinder`: the thread's, directly after its capture of this stack; from the frame on from which
/// its shadow stack is unchanged, that is visited instead, and nodes are known. Null: every frame is found by a step.
Truncation visit_stack(const arch::EntryRegisters& entry, const Definitions& definitions, StackBounds& bounds,
                       const ThreadUnwinder* unwinder, bool (*visit)(void* context, const VisitedFrame& frame),
                       void* context) noexcept;

/// How many outermost frames a stack of `depth` frames loses (Settings::max_depth).
std::uint32_t frames_to_omit(std::uint32_t depth) noexcept;

}  // namespace heapprof::unwind
