// Visits the C frames of a stack with their positions on the stack, for the case that a node does not suffice. A
// visit changes no remembered stack. It is a template so that the compiler inlines what is done with each frame, and
// computes only what that needs.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/unwind/frame.h"
#include "preload/unwind/stack_bounds.h"
#include "preload/unwind/step.h"
#include "preload/unwind/thread_data.h"
#include "preload/unwind/truncation.h"
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

namespace detail {

[[gnu::always_inline]] inline VisitedFrame visited_frame(const Frame& frame, std::uint64_t end, NodeId node,
                                                         std::uint32_t outer_frames) noexcept {
  return {ModuleId{frame.module},
          (frame.flags & kByFramePointer) != 0 ? kNodeByFramePointer : 0,
          offset_of(frame),
          to_address(frame.sp),
          end,
          frame.pc == hidden_pc,
          node,
          outer_frames};
}

/// The shadow stack, of which frames may be equal to those that are visited; null: none may.
inline const ThreadData* remembered_by(const ThreadUnwinder* unwinder) noexcept {
  if (unwinder == nullptr || unwinder->paths() == nullptr) return nullptr;
  const auto* const data = static_cast<const ThreadData*>(unwinder->paths());
  return data->is_valid() && data->length != 0 ? data : nullptr;
}

/// Visits `top` and all outer frames of the shadow stack, which are verified.
template <typename Visit>
[[gnu::always_inline]] inline Truncation visit_shadow_stack(const ThreadData& data, const Frame* top,
                                                            const Visit& visit) noexcept {
  for (const Frame* const outermost = data.arrays->frames; top >= outermost; --top) {
    const std::uint64_t end = to_address(top == outermost ? top->sp : top[-1].sp);
    const auto outer_frames = static_cast<std::uint32_t>(top - outermost);
    if (!visit(visited_frame(*top, end, top->node, outer_frames))) return Truncation::kNone;
  }
  return data.reason;
}

}  // namespace detail

/// Calls visit(frame) for each frame from the innermost to the outermost, until it returns false. Returns why the
/// outermost frame was not reached; kNone: it was. `bounds`: of the calling thread, and not of its ThreadUnwinder.
/// `unwinder`: the thread's, directly after its capture of this stack, which was done as `captured` says; from the
/// frame on from which its shadow stack is unchanged, that is visited instead, and nodes are known. Null: every frame
/// is found by a step.
template <typename Visit>
Truncation visit_stack(const arch::EntryRegisters& entry, const Definitions& definitions, StackBounds& bounds,
                       const ThreadUnwinder* unwinder, Captured captured, const Visit& visit) noexcept {
  const ThreadData* const data = detail::remembered_by(unwinder);
  const Frame* top = data == nullptr ? nullptr : data->arrays->frames + data->length - 1;
  const Frame* usable = data == nullptr ? nullptr : top + 1;  // frames from here on have changed
  const std::uint32_t verified = data == nullptr || captured == Captured::kAnyhow ? 0 : data->verified;
  FullFrame full;
  full.valid = false;
  Walk walk{entry_state(entry), bounds, full, entry, definitions, generation()};
  bounds.begin(to_address(entry.sp));
  StepResult result = StepResult::kCaller;
  for (std::uint32_t count = 0; count != kMaxFrames && result == StepResult::kCaller; ++count) {
    if (data != nullptr) {
      while (top->sp < walk.state.sp) --top;
      if (top < usable && same_state(*top, walk.state)) {
        // In this event the frame cannot have changed since the capture.
        const std::uint32_t again = top - data->arrays->frames < verified ? 0 : verify(*data->arrays, top);
        if (again == 0) return detail::visit_shadow_stack(*data, top, visit);
        usable = data->arrays->frames + again - 1;
      }
    }
    const Rule rule = find_rule(walk, walk.state.address());
    Frame frame{};
    frame.pc = walk.state.pc;
    frame.sp = walk.state.sp;
    frame.module = static_cast<std::uint16_t>(raw(rule.module()));
    frame.flags = walk.state.flags;
    StackWord words[kWordsPerFrame];
    StackWord* unused = words;
    result = step(walk.state, walk, rule, unused, frame.flags);
    const std::uint64_t end = to_address(result == StepResult::kCaller ? walk.state.sp : frame.sp);
    if (!visit(detail::visited_frame(frame, end, NodeId::kNone, 0))) return Truncation::kNone;
  }
  return result == StepResult::kCaller ? Truncation::kMaxDepth : walk.reason;
}

/// How many outermost frames a stack of `depth` frames loses (Settings::max_depth).
inline std::uint32_t frames_to_omit(std::uint32_t depth) noexcept { return frames_to_omit(depth, detail::max_depth); }

}  // namespace heapprof::unwind
