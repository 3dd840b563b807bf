#include "preload/unwind/cached_steps.h"

#include "preload/unwind/checks.h"
#include "preload/unwind/thread_data.h"

namespace heapprof::unwind {

namespace {

/// Repeats `step` from `state`. Returns false when it would not lead to the same CFA again.
inline bool repeat(const CachedStep& step, State& state) noexcept {
  if (step.rule.kind() == RuleKind::kFp) {
    if ((state.flags & kFpIsSlot) != 0) state.fp = load_word(state.fp);
    state.flags = 0;
    if (state.fp + step.rule.cfa_offset() != to_address(step.cfa)) return false;
  }
  const std::uint64_t pc = arch::strip(load_word(to_address(step.cfa) + step.rule.ra_offset()));
  if (pc - 1 >= arch::kCodeEnd) return false;
  state.pc = ProgramCounter{pc};
  state.sp = step.cfa;
  if (!step.rule.fp_unchanged()) {
    state.fp = to_address(step.cfa) + step.rule.fp_offset();
    state.flags = kFpIsSlot;
  }
  return true;
}

/// Returns the node of the innermost frame of a stack: of the frame from which the first of `count` steps starts; the
/// last step leads to `anchor`. Returns kNone if the call tree cannot grow.
inline NodeId intern_steps(ThreadData& data, const Definitions& definitions, CachedStep* const* steps,
                           std::uint32_t count, const Frame& anchor) noexcept {
  NodeId node = anchor.node;
  for (std::uint32_t i = count; i-- != 0;) {
    CachedStep& step = *steps[i];
    if (step.parent != node || step.node == NodeId::kNone) {
      const std::uint64_t key = CachedNodes::key_of(step.pc, 0);
      CachedNode* const at = data.nodes.set_of(key, node);
      NodeId found = CachedNodes::find(at, key, node, data.generation);
      if (found == NodeId::kNone) {
        found = step.pc == detail::hidden_pc
                    ? node
                    : definitions.intern(definitions.context, node, step.rule.module(), offset_of(step), 0);
        if (found == NodeId::kNone) [[unlikely]]
          return found;
        CachedNodes::add(at, {key, node, found, data.generation});
      }
      step.parent = node;
      step.node = found;
    }
    node = step.node;
  }
  return node;
}

}  // namespace

NodeId capture_by_cached_steps(ThreadData& data, const arch::EntryRegisters& entry,
                               const Definitions& definitions) noexcept {
  const FrameArrays& arrays = *data.arrays;
  const Frame* top = arrays.frames + data.length - 1;
  while (top->sp < entry.sp) --top;
  const auto length = static_cast<std::uint32_t>(top - arrays.frames) + 1;
  const std::uint64_t version = cache_version(data.generation, data.bounds_version);

  State state = entry_state(entry);
  CachedStep* taken[kMaxCachedSteps];
  std::uint32_t steps = 0;
  // If the state equals that of a frame of the shadow stack, but a frame further out has changed, cached steps
  // continue through all frames up to the changed one. So only frames below `usable` may be the anchor.
  const Frame* usable = top + 1;
  for (;;) {
    if (top < usable && same_state(*top, state)) {
      const std::uint32_t again = verify(arrays, top);
      if (again == 0) break;
      usable = arrays.frames + again - 1;
    }
    if (steps == kMaxCachedSteps) return NodeId::kNone;
    CachedStep* const step = data.steps.find(state, version);
    if (step == nullptr || !repeat(*step, state)) return NodeId::kNone;
    taken[steps++] = step;
    while (top->sp < state.sp) --top;
  }
  const auto anchor = static_cast<std::uint32_t>(top - arrays.frames);
  if (anchor + 1 + steps > detail::max_depth) return NodeId::kNone;
  const NodeId node = intern_steps(data, definitions, taken, steps, *top);
  if (node == NodeId::kNone) [[unlikely]]
    return node;
  data.length = length;
  if (steps != 0 && top->barrier == 0) cache_path_of_steps(data, entry, taken, steps, anchor, node);
  if constexpr (kCheckStacks) check_steps(data, entry, definitions, anchor, steps, node);
  return node;
}

}  // namespace heapprof::unwind
