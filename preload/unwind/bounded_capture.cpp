#include "preload/unwind/bounded_capture.h"

#include "preload/unwind/frame.h"
#include "preload/unwind/step.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::unwind {

namespace {

/// Keeps capture_bounded below 1 KB of stack, and its deepest path below 4 KB (tests/abi).
constexpr std::uint32_t kBoundedFrames = 112;

/// A frame is stored as its program counter, which has at most 57 bits, with the flags in the bits above. The two
/// highest flags do not fit, but the node does not depend on them. The module is found again by the frame's rule.
constexpr unsigned kFlagShift = 58;

}  // namespace

NodeId capture_bounded(const arch::EntryRegisters& entry, const Definitions& definitions,
                       Truncation reason) noexcept {
  StackBounds bounds{};
  FullFrame full;
  full.valid = false;
  Walk walk{entry_state(entry), bounds, full, entry, definitions, generation()};
  bounds.begin(to_address(entry.sp));
  std::uint64_t frames[kBoundedFrames];
  std::uint32_t count = 0;
  StepResult result = StepResult::kCaller;
  for (; count < kBoundedFrames && result == StepResult::kCaller; ++count) {
    const Rule rule = find_rule(walk, walk.state.address());
    const std::uint64_t pc = to_address(walk.state.pc);
    std::uint16_t flags = walk.state.flags;
    StackWord words[kWordsPerFrame];
    StackWord* unused = words;
    result = step(walk.state, walk, rule, unused, flags);
    frames[count] = pc | std::uint64_t{flags} << kFlagShift;
  }
  if (result == StepResult::kCaller) walk.reason = reason;
  NodeId node = root_of(definitions, walk.reason);
  while (count != 0) {
    const std::uint64_t packed = frames[--count];
    Frame frame{};
    frame.pc = ProgramCounter{packed & ((std::uint64_t{1} << kFlagShift) - 1)};
    frame.flags = static_cast<std::uint16_t>(packed >> kFlagShift);
    const FrameAddress address{frame.pc, (frame.flags & kInterrupted) != 0};
    frame.module = static_cast<std::uint16_t>(raw(find_rule(walk, address).module()));
    node = intern(definitions, node, frame);
    if (node == NodeId::kNone) break;
  }
  return node;
}

NodeId capture_nested(const arch::EntryRegisters& entry, const Definitions& definitions) noexcept {
  return capture_bounded(entry, definitions, Truncation::kNested);
}

}  // namespace heapprof::unwind
