// A frame that unwinding found, and its node in the call tree.
#pragma once

#include <bit>
#include <cstdint>

#include "common/ids.h"
#include "common/trace_format.h"
#include "preload/unwind/definitions.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/step.h"

namespace heapprof::unwind {

namespace detail {
extern ProgramCounter hidden_pc [[gnu::visibility("hidden")]];  ///< see hide_frame()
}  // namespace detail

/// Identifies a frame in the call tree, in 64 bits.
struct FrameIdentity {
  NodeId node;
  std::uint16_t module;
  std::uint16_t flags;  ///< FrameFlags

  std::uint64_t bits() const noexcept { return std::bit_cast<std::uint64_t>(*this); }
};
static_assert(sizeof(FrameIdentity) == 8);

struct Frame : FrameIdentity {
  ProgramCounter pc;
  StackPointer sp;
  std::uint64_t fp;
  /// Index into the words: see FrameArrays.
  std::uint32_t words;
  /// In the shadow stack: 1 + the index of the nearest barrier from this frame outwards; 0: none.
  std::uint32_t barrier;
};
static_assert(sizeof(Frame) == 40);

/// The offset of the frame's code address in its module. For a frame that made a call, this is within the call
/// instruction.
inline std::uint64_t offset_of(const Frame& frame) noexcept {
  const std::uint64_t code = to_address(frame.pc) - ((frame.flags & (kInterrupted | kSignalFrame)) == 0 ? 1 : 0);
  return code - state_of(ModuleId{frame.module}).load_bias;
}

/// kNode... of trace_format.h, and kSignalNode.
inline std::uint32_t node_flags_of(const Frame& frame) noexcept {
  const std::uint32_t by_frame_pointer = (frame.flags & kByFramePointer) != 0 ? kNodeByFramePointer : 0;
  const std::uint32_t signal = (frame.flags & (kInterrupted | kSignalFrame)) != 0 ? kSignalNode : 0;
  return by_frame_pointer | signal;
}

/// Returns the node of `frame` called from `parent`; kNone when the call tree cannot grow.
inline NodeId intern(const Definitions& definitions, NodeId parent, const Frame& frame) noexcept {
  if (frame.pc == detail::hidden_pc) [[unlikely]]
    return parent;
  return definitions.intern(definitions.context, parent, ModuleId{frame.module}, offset_of(frame),
                            node_flags_of(frame));
}

/// The parent of a stack's outermost frame: none, or a truncation root.
inline NodeId root_of(const Definitions& definitions, Truncation reason) noexcept {
  if (reason == Truncation::kNone) return NodeId::kNone;
  return definitions.intern(definitions.context, NodeId::kNone, ModuleId::kTruncationRoot,
                            static_cast<std::uint64_t>(reason), 0);
}

/// The parent of the outermost frame that is kept of a stack that loses these `count` frames (Settings::max_depth).
inline NodeId root_without(const Definitions& definitions, const Frame* frames, std::uint32_t count) noexcept {
  if (definitions.intern_omitted == nullptr) return root_of(definitions, Truncation::kMaxDepth);
  std::uint64_t hash = count;
  std::uint32_t flags = 0;
  for (const Frame* frame = frames; frame != frames + count; ++frame) {
    const std::uint32_t of_frame = node_flags_of(*frame);
    hash = (hash ^ offset_of(*frame)) * 0x9fb21c651e98df25;
    hash = (hash ^ hash >> 32 ^ std::uint64_t{of_frame} << 16 ^ frame->module) * 0xd6e8feb86659fd93;
    hash ^= hash >> 32;
    flags |= of_frame;
  }
  return definitions.intern_omitted(definitions.context, hash, (flags & kSignalNode) != 0);
}

}  // namespace heapprof::unwind
