#include "preload/unwind/stack_walk.h"

#include "preload/unwind/thread_data.h"

namespace heapprof::unwind {

namespace {

/// Sets the frame register of `frame` to that of `state`.
inline void set_fp(Frame& frame, const State& state) noexcept {
  frame.fp = state.fp;
  frame.flags = static_cast<std::uint16_t>((frame.flags & ~kFpIsSlot) | (state.flags & kFpIsSlot));
}

}  // namespace

Walked walk_stack(ThreadData& data, Walk& walk, std::uint32_t candidates, std::uint32_t max_cached) noexcept {
  FrameArrays* arrays = data.arrays;
  State state = walk.state;
  const Frame* top = arrays->frames + candidates - 1;
  Frame* frame = arrays->walked;
  StackWord* words = arrays->walked_words;
  const auto result = [&](std::uint32_t kept) noexcept {
    return Walked{kept, static_cast<std::uint32_t>(frame - arrays->walked),
                  static_cast<std::uint32_t>(words - arrays->walked_words)};
  };
  const auto have_room = [&]() noexcept {
    if (frame != arrays->walked + arrays->capacity) [[likely]]
      return true;
    const auto count = static_cast<std::uint32_t>(frame - arrays->walked);
    const auto used = static_cast<std::uint32_t>(words - arrays->walked_words);
    const std::int64_t candidate = top - arrays->frames;
    if (count >= kMaxFrames || !grow(data, count, used)) {
      walk.reason = count >= kMaxFrames ? Truncation::kMaxDepth : Truncation::kNoMemory;
      frame[-1].flags |= kBarrier;
      return false;
    }
    arrays = data.arrays;
    frame = arrays->walked + count;
    words = arrays->walked_words + used;
    top = arrays->frames + candidate;
    return true;
  };

  for (;;) {
    while (top->sp < state.sp) --top;
    if (same_state(*top, state)) {
      const std::uint32_t again = verify(*arrays, top);
      if (again == 0) [[likely]]
        return result(static_cast<std::uint32_t>(top - arrays->frames) + 1);
      // The frames inside of the `again` outermost ones are verified and are copied. If fp was unused, it may have
      // another value now; that value applies to all copied frames up to the first one that changes fp.
      bool same_fp = true;
      for (; top >= arrays->frames + again; --top) {
        if (!have_room()) return result(0);
        const StackWord* word = arrays->words + top[-1].words;
        const StackWord* const end = arrays->words + top->words;
        *frame = *top;
        frame->words = static_cast<std::uint32_t>(words - arrays->walked_words);
        frame->flags &= static_cast<std::uint16_t>(~kFpUnused);
        if (same_fp) set_fp(*frame, state);
        same_fp = same_fp && (frame->flags & kFpUnchanged) != 0;
        ++frame;
        while (word != end) *words++ = *word++;
      }
      state = {top->pc, top->sp, same_fp ? state.fp : top->fp,
               static_cast<std::uint16_t>((top->flags & kStateFlags & ~kFpIsSlot) |
                                          ((same_fp ? state.flags : top->flags) & kFpIsSlot))};
      --top;
    }

    if (!have_room()) [[unlikely]]
      return result(0);
    const Rule rule = find_rule(walk, state.address());
    frame->pc = state.pc;
    frame->sp = state.sp;
    frame->fp = state.fp;
    frame->words = static_cast<std::uint32_t>(words - arrays->walked_words);
    frame->module = static_cast<std::uint16_t>(raw(rule.module()));
    frame->flags = state.flags;
    const StepResult taken = step(state, walk, rule, words, frame->flags);
    if (taken == StepResult::kCaller) [[likely]] {
      if (frame - arrays->walked < max_cached)
        data.steps.add(*frame, rule, state.sp, cache_version(walk.generation, data.bounds.version()));
      ++frame;
      continue;
    }
    ++frame;
    if (taken == StepResult::kTruncated) frame[-1].flags |= kBarrier;
    return result(0);
  }
}

}  // namespace heapprof::unwind
