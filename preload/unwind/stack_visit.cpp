#include "preload/unwind/stack_visit.h"

#include "preload/unwind/frame.h"
#include "preload/unwind/step.h"
#include "preload/unwind/thread_data.h"
#include "preload/unwind/truncation.h"

namespace heapprof::unwind {

Truncation visit_stack(const arch::EntryRegisters& entry, const Definitions& definitions, StackBounds& bounds,
                       bool (*visit)(void* context, const VisitedFrame& frame), void* context) noexcept {
  FullFrame full;
  full.valid = false;
  Walk walk{entry_state(entry), bounds, full, entry, definitions, generation()};
  bounds.begin(to_address(entry.sp));
  StepResult result = StepResult::kCaller;
  for (std::uint32_t count = 0; count != kMaxFrames && result == StepResult::kCaller; ++count) {
    const Rule rule = find_rule(walk, walk.state.address());
    Frame frame{};
    frame.pc = walk.state.pc;
    frame.module = static_cast<std::uint16_t>(raw(rule.module()));
    frame.flags = walk.state.flags;
    const std::uint64_t begin = to_address(walk.state.sp);
    StackWord words[kWordsPerFrame];
    StackWord* unused = words;
    result = step(walk.state, walk, rule, unused, frame.flags);
    VisitedFrame visited;
    visited.module = rule.module();
    visited.node_flags = (frame.flags & kByFramePointer) != 0 ? kNodeByFramePointer : 0;
    visited.offset = offset_of(frame);
    visited.begin = begin;
    visited.end = result == StepResult::kCaller ? to_address(walk.state.sp) : begin;
    visited.hidden = frame.pc == detail::hidden_pc;
    if (!visit(context, visited)) return Truncation::kNone;
  }
  return result == StepResult::kCaller ? Truncation::kMaxDepth : walk.reason;
}

std::uint32_t frames_to_omit(std::uint32_t depth) noexcept { return frames_to_omit(depth, detail::max_depth); }

}  // namespace heapprof::unwind
