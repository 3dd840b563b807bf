#include "preload/python/native_stacks.h"

#include <atomic>

#include "preload/python/checks.h"
#include "preload/recorder/call_tree/call_tree.h"

namespace heapprof::python {

NodeId NativeStacks::intern_outermost(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t node_flags,
                                      recorder::Stream& stream) noexcept {
  const NativeStack outer(parent);
  const bool in_handler = outer.in_handler() || (node_flags & unwind::kSignalNode) != 0;
  const std::uint32_t interpreter = interpreter_within(module, outer);
  const bool is_node = interpreter == 0 && !in_handler && !outer.numbered();
  if (is_node || kCheckFrames) {
    // The checks of the unwinder compare stacks, so equal ones must always have equal numbers.
    const NodeId parent_node = outer.numbered() ? NodeId{outer.number()} : parent;
    const NodeId node =
        recorder::g_call_tree.intern(parent_node, module, offset, node_flags & ~unwind::kSignalNode, stream);
    if (is_node || node == NodeId::kNone) return node;
    return NativeStack(raw(node), interpreter, in_handler).id();
  }
  const std::uint64_t frame = frame_word(module, offset, node_flags);
  Set& set = set_of(parent, frame);
  if (set[0].is(parent, frame)) return set[0].stack;
  if (set[1].is(parent, frame)) return set[1].stack;
  return add(set, parent, frame, interpreter, in_handler);
}

NodeId NativeStacks::intern_omitted(std::uint64_t omitted, bool signal, recorder::Stream& stream) noexcept {
  if constexpr (kCheckFrames) {
    constexpr unsigned kOffsetBits = 40;
    const NodeId node = recorder::g_call_tree.intern(NodeId::kNone, ModuleId::kTruncationRoot,
                                                     omitted >> (64 - kOffsetBits), 0, stream);
    return node == NodeId::kNone ? node : NativeStack(raw(node), 0, signal).id();
  }
  const std::uint64_t frame = omitted | 1;
  Set& set = set_of(kOmitted, frame);
  if (set[0].is(kOmitted, frame)) return set[0].stack;
  if (set[1].is(kOmitted, frame)) return set[1].stack;
  return add(set, kOmitted, frame, 0, signal);
}

/// Gives a stack a number, and adds it to its set unless its `frame` is 0.
NodeId NativeStacks::add(Set& set, NodeId parent, std::uint64_t frame, std::uint32_t interpreter,
                         bool in_handler) noexcept {
  const NodeId stack = NativeStack(++last_number_, interpreter, in_handler).id();
  if (frame == 0) return stack;
  // A signal handler may leave by longjmp at any instruction, and does not use these slots itself. So the compiler
  // must keep this order: a slot that has a stack has its frame and parent. The number is stored before, and never
  // used again. If the handler interrupts the two stores without a fence between them, both slots are valid.
  set[1].stack = NodeId::kNone;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[1].frame = set[0].frame;
  set[1].parent = set[0].parent;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[1].stack = set[0].stack;
  set[0].stack = NodeId::kNone;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[0].frame = frame;
  set[0].parent = parent;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[0].stack = stack;
  return stack;
}

void NativeStacks::begin() noexcept {
  const std::uint32_t found = found_interpreters();
  // A number may be used again when no slot has it. If a handler leaves by longjmp before the end, this is repeated.
  if (last_number_ != 0) {
    for (auto& set : slots_)
      for (Slot& slot : set) slot.stack = NodeId::kNone;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  last_number_ = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  found_interpreters_ = found;
}

}  // namespace heapprof::python
