#include "preload/unwind/cached_steps.h"

#include <atomic>

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
inline NodeId intern_steps(const Definitions& definitions, CachedStep* const* steps, std::uint32_t count,
                           const Frame& anchor) noexcept {
  NodeId node = anchor.node;
  for (std::uint32_t i = count; i-- != 0;) {
    CachedStep& step = *steps[i];
    if (step.parent != node || step.node == NodeId::kNone) {
      const NodeId found = step.pc == detail::hidden_pc ? node
                                                        : definitions.intern(definitions.context, node,
                                                                             step.rule.module(), offset_of(step), 0);
      if (found == NodeId::kNone) [[unlikely]]
        return found;
      step.parent = node;
      step.node = found;
    }
    node = step.node;
  }
  return node;
}

/// Returns how many of the outermost steps to the frame `anchor`, without the innermost step, have the same nodes as
/// those of the last capture by cached steps to this frame.
inline std::uint32_t common_steps(const LastSteps& last, CachedStep* const* steps, std::uint32_t count,
                                  std::uint32_t anchor) noexcept {
  if (last.anchor != anchor) return 0;
  const std::uint32_t limit = (last.count < count ? last.count : count) - 1;
  std::uint32_t common = 0;
  while (common < limit && last.nodes[common] == steps[count - 1 - common]->node) ++common;
  return common;
}

inline void remember_steps(LastSteps& last, CachedStep* const* steps, std::uint32_t count,
                           std::uint32_t anchor) noexcept {
  last.anchor = anchor;
  last.count = count;
  for (std::uint32_t i = 0; i != count; ++i) last.nodes[i] = steps[count - 1 - i]->node;
}

/// Replaces the frames of the shadow stack inside of `anchor` by the frames of the outermost `added` of `count`
/// steps, which were taken from `entry`. Returns false if there is no room.
[[gnu::noinline]] bool extend_shadow_stack(ThreadData& data, const arch::EntryRegisters& entry,
                                           CachedStep* const* steps, std::uint32_t count, std::uint32_t added,
                                           std::uint32_t anchor) noexcept {
  const FrameArrays& arrays = *data.arrays;
  if (anchor + 1 + added > arrays.capacity) return false;
  Frame* frame = arrays.walked;
  StackWord* words = arrays.walked_words;
  State state = entry_state(entry);
  for (std::uint32_t i = 0; i != count; ++i) {
    const CachedStep& step = *steps[i];
    if (i == count - added) words = arrays.walked_words;
    frame->pc = step.pc;
    frame->sp = step.sp;
    frame->fp = state.fp;
    frame->words = static_cast<std::uint32_t>(words - arrays.walked_words);
    frame->module = static_cast<std::uint16_t>(raw(step.rule.module()));
    frame->flags = state.flags;
    if (step.rule.kind() == RuleKind::kSp) frame->flags |= step.rule.fp_unchanged() ? kFpUnchanged : kFpRestored;
    else read_fp(state, words);
    if (i >= count - added) ++frame;
    const std::uint64_t slot = to_address(step.cfa) + step.rule.ra_offset();
    *words++ = {slot, load_word(slot)};
    state.flags &= kFpIsSlot;
    if (!step.rule.fp_unchanged()) {
      state.fp = to_address(step.cfa) + step.rule.fp_offset();
      state.flags = kFpIsSlot;
    }
  }
  data.length = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  append_walked(data, {anchor + 1, added, static_cast<std::uint32_t>(words - arrays.walked_words)});
  for (std::uint32_t i = 0; i != added; ++i) arrays.frames[anchor + 1 + i].node = steps[count - 1 - i]->node;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  data.length = anchor + 1 + added;
  return true;
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
  auto anchor = static_cast<std::uint32_t>(top - arrays.frames);
  if (anchor + 1 + steps > detail::max_depth) return NodeId::kNone;
  const NodeId node = intern_steps(definitions, taken, steps, *top);
  if (node == NodeId::kNone) [[unlikely]]
    return node;
  data.length = length;
  if (steps > 1 && top->barrier == 0) {
    const std::uint32_t common = common_steps(data.last_steps, taken, steps, anchor);
    if (common != 0 && extend_shadow_stack(data, entry, taken, steps, common, anchor)) {
      anchor += common;
      steps -= common;
      top += common;
    }
    remember_steps(data.last_steps, taken, steps, anchor);
  }
  data.verified = anchor + 1;
  if (steps != 0 && top->barrier == 0) cache_path_of_steps(data, entry, taken, steps, anchor, node);
  if constexpr (kCheckStacks) check_steps(data, entry, definitions, anchor, steps, node);
  return node;
}

}  // namespace heapprof::unwind
