// The shadow stack: a thread's copy of the last stack that it walked, by which the next stack is verified instead of
// walked.
//
// For each frame it holds the state, the node, and every word that the step from the frame read. A step depends on
// the state and on these words only. So if a walk reaches the state of a remembered frame, and the words of this
// frame and of all outer frames are unchanged, the remaining stack is also unchanged. Frames whose step depends on
// more are barriers: verification stops there. Nothing is written to the host's stack. docs/concepts/unwinding.md
// explains why this is right.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/unwind/cached_paths.h"
#include "preload/unwind/frame.h"
#include "preload/unwind/stack_word.h"
#include "preload/unwind/step.h"

namespace heapprof::unwind {

/// The arrays of a thread, at the beginning of the memory that holds them.
struct FrameArrays {
  std::size_t mapped_bytes;  ///< 0: part of the mapping of ThreadData
  std::uint32_t capacity;    ///< frames, in each of the two sets
  // The shadow stack, outermost frame first. frames[i].words: where the words of frame i end. frames[-1] is a
  // sentinel: it equals no state, and its sp is above all others.
  Frame* frames;
  StackWord* words;
  std::uint64_t* prefix_versions;  ///< of frames: see cached_paths.h
  // The frames of the current walk, innermost first. walked[i].words: where the words of frame i begin.
  Frame* walked;
  StackWord* walked_words;
};

/// The memory that lay_out() needs: per frame, and in addition.
inline constexpr std::size_t kBytesPerFrame =
    2 * (sizeof(Frame) + kWordsPerFrame * sizeof(StackWord)) + sizeof(std::uint64_t);
inline constexpr std::size_t kFixedBytes = sizeof(Frame) + (kWordStride - 1) * sizeof(StackWord);
static_assert((kMaxFrames << 1) * kWordsPerFrame < 1u << kPrefixVersionShift);

/// Places the arrays in the memory behind `arrays`.
void lay_out(FrameArrays& arrays, std::uint32_t capacity) noexcept;

struct ThreadData;

/// Doubles the capacity of the arrays, and keeps the shadow stack and the first `walked` frames and `walked_words`
/// words of the walk. Returns false when there is no memory.
[[gnu::noinline]] bool grow(ThreadData& data, std::uint32_t walked, std::uint32_t walked_words) noexcept;

/// The result of a walk.
struct Walked {
  std::uint32_t kept;    ///< frames of the shadow stack, from the outermost, that are verified
  std::uint32_t frames;  ///< frames inside of these, in FrameArrays::walked
  std::uint32_t words;
};

/// Appends the walked frames, which have no nodes yet, to the verified ones. Returns the end of the frames. The
/// shadow stack's length must be 0, and the arrays must have room.
Frame* append_walked(ThreadData& data, const Walked& walked) noexcept;

/// Replaces the frames of the shadow stack inside of the verified ones by the walked ones and determines the nodes of
/// those that have none. `omitted`: outermost frames that get no node. Returns the node of the innermost frame; kNone
/// when there is no memory for the call tree or for the arrays.
NodeId update_shadow_stack(ThreadData& data, const Walk& walk, const Walked& walked, std::uint32_t omitted) noexcept;

inline bool same_state(const Frame& frame, const State& state) noexcept {
  if (frame.sp != state.sp || frame.pc != state.pc) return false;
  if ((frame.flags & kFpUnused) != 0) return ((frame.flags ^ state.flags) & kStateFlags & ~kFpIsSlot) == 0;
  return frame.fp == state.fp && (frame.flags & kStateFlags) == state.flags;
}

/// Returns how many of the frames up to and including `top` must be unwound again, counted from the outermost: 0, or
/// all up to and including the innermost frame that is a barrier or has a changed word. Takes about 4 instructions
/// per word.
inline std::uint32_t verify(const FrameArrays& arrays, const Frame* top) noexcept {
  const Frame* const frames = arrays.frames;
  const std::uint32_t barrier = top->barrier;
  const StackWord* const stop = arrays.words + frames[static_cast<std::int64_t>(barrier) - 1].words;
  const StackWord* word = arrays.words + top->words;
  for (; word - stop >= 4; word -= 4)
    if (!word[-1].unchanged() || !word[-2].unchanged() || !word[-3].unchanged() || !word[-4].unchanged()) break;
  while (word != stop && word[-1].unchanged()) --word;
  if (word == stop) [[likely]]
    return barrier;
  const auto changed = static_cast<std::uint32_t>(word - arrays.words);  // the index after that of the changed word
  while (top[-1].words >= changed) --top;
  return static_cast<std::uint32_t>(top - frames) + 1;
}

}  // namespace heapprof::unwind
