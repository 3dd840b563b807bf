// The placement of Python frames: which of them stand between which C frames of a stack. The result is the mixed
// stack, as a node of the call tree.
//
// An evaluation (_PyEval_EvalFrameDefault) is a C frame that executes Python frames. Which ones is not decided by
// names: the interpreter keeps a structure on the C stack of each evaluation, and links it with the frames. So the C
// frame whose part of the stack contains the structure is the evaluation of the frames inside of this structure, and
// they stand between it and the C frame that it called. docs/concepts/python.md explains this.
//
// A stack is placed by a visit of the C frames from the innermost one on, which ends at the first frame from which
// outwards both C frames and Python frames are those of the last stack that was placed.
#pragma once

#include <cstdint>
#include <optional>

#include "common/ids.h"
#include "preload/arch/arch.h"
#include "preload/python/interpreter.h"
#include "preload/python/left_out.h"
#include "preload/python/mapped_array.h"
#include "preload/python/thread_frames.h"
#include "preload/recorder/trace/stream.h"
#include "preload/unwind/definitions.h"
#include "preload/unwind/stack_bounds.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::python {

/// A C frame of the stack that is placed.
struct NativeFrame {
  std::uint64_t offset;  ///< in bytes, within the module
  ModuleId module;
  std::uint32_t node_flags;  ///< kNode... of trace_format.h
  NodeId native;             ///< the C stack from this frame outwards (NativeStack); kNone: not known
  bool hidden;
  /// If the frame is an evaluation: the index after that of its innermost Python frame, and that of its outermost
  /// one.
  std::uint32_t python_end;
  std::uint32_t python_begin;
};

/// A C frame of the last stack that was placed, and the mixed stack from this frame outwards: with the Python frames
/// that it executes, if it is an evaluation.
struct PlacedFrame {
  std::uint64_t hash;  ///< of the Python frames
  NodeId native;       ///< the C stack (NativeStack); kNone: not known
  NodeId mixed;
  std::uint32_t depth;  ///< frames of the mixed stack
};

/// The node that the call tree has for these values: that of the last stack with so many outer frames.
struct KnownNode {
  std::uint64_t offset;
  std::uint64_t module;  ///< and flags, in the upper 32 bits
  NodeId parent;
  NodeId node;  ///< kNone: there is none
};

/// The last stack that was placed.
struct LastStack {
  MappedArray<PlacedFrame> frames;  ///< its C frames, outermost first
  std::uint32_t count;              ///< of these; 0 while they are changed
  MappedArray<KnownNode> nodes;     ///< by the number of outer frames of the mixed stack

  void forget() noexcept {
    count = 0;
    for (std::uint32_t i = 0; i != nodes.capacity; ++i) nodes.elements[i].node = NodeId::kNone;
  }
};

/// What a thread needs to place its stacks. Zeroed memory is a valid object.
struct PlacementData {
  unwind::StackBounds bounds;       ///< of the thread, and not of its ThreadUnwinder
  MappedArray<NativeFrame> native;  ///< innermost first
  LastStack last;
  LastStack checked;  ///< the same without anything remembered; in checked builds
};

/// A stack that is placed, and what for. It is the calling thread's.
struct StackToPlace {
  PlacementData& data;
  const ThreadFrames& frames;  ///< its Python frames, if there is an interpreter
  const Interpreter* python;   ///< null: no Python frames are placed
  const arch::EntryRegisters& entry;
  const unwind::ThreadUnwinder& unwinder;
  unwind::Captured captured;  ///< how `unwinder` has just captured it
  const unwind::Definitions& definitions;
  recorder::Stream& stream;
};

enum class Remembered : bool {
  kIgnored,
  kUsed,
};

/// Returns the node of the mixed stack; kNone: the call tree cannot grow, or `why_not` is set, because the Python
/// frames cannot be placed (kNoPlace) or because there is no memory (kNoMemory). `last`: the last stack that was
/// placed with it; becomes this one. `remembered`: whether its frames are used. If they are ignored, the nodes of
/// `last` are still used, unless last.forget() was called.
NodeId place_frames(const StackToPlace& stack, LastStack& last, Remembered remembered,
                    std::optional<LeftOut>& why_not) noexcept;

}  // namespace heapprof::python
