// One unwind step: from the state of a frame to the state of its caller.
//
// A frame's state is (pc, sp, fp). sp is the CFA of the frame that it called. fp is the value of the frame register
// or, after an inner frame saved the register, the address of the stack slot with the saved value. Most code does not
// use the value, and then the slot is never read. The rule of the program counter determines the step. Every word
// that the step reads is appended to a list, with which the step can be verified later (shadow_stack.h).
#pragma once

#include <cstdint>

#include "common/trace_format.h"
#include "preload/arch/arch.h"
#include "preload/unwind/definitions.h"
#include "preload/unwind/frame_address.h"
#include "preload/unwind/full_unwind.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/rule_cache.h"
#include "preload/unwind/stack_bounds.h"
#include "preload/unwind/stack_word.h"

namespace heapprof::unwind {

/// The maximum number of frames that a walk follows.
inline constexpr std::uint32_t kMaxFrames = 1u << 17;

enum FrameFlags : std::uint16_t {
  // Flags of a state and of its frame.
  kInterrupted = 1,     ///< see FrameAddress
  kByFramePointer = 2,  ///< found by frame pointer, without unwind information
  kFpIsSlot = 4,        ///< fp is the address where the frame register was saved, not its value
  kStateFlags = kInterrupted | kByFramePointer | kFpIsSlot,
  // Flags of a frame only.
  kSignalFrame = 8,  ///< the frame to which a signal handler returns: its code address is pc, not pc - 1
  kBarrier = 16,     ///< the step from this frame depends on more than its state and words: no verification
  // How the step from this frame finds the caller's fp. Without either flag, the step uses the value of fp.
  kFpRestored = 32,   ///< read from the stack; this frame's fp is not used
  kFpUnchanged = 64,  ///< the caller's fp equals this frame's fp
  /// In the shadow stack: no step from this frame outwards uses the value of fp, so any fp matches.
  kFpUnused = 128,
};

struct State {
  ProgramCounter pc;
  StackPointer sp;
  std::uint64_t fp;
  std::uint16_t flags;

  FrameAddress address() const noexcept { return {pc, (flags & kInterrupted) != 0}; }
};

/// The state in which a capture begins.
inline State entry_state(const arch::EntryRegisters& entry) noexcept { return {entry.pc, entry.sp, entry.fp, 0}; }

/// What a walk over the stack needs and changes.
struct Walk {
  State state;
  StackBounds& bounds;
  FullFrame& full;  ///< the last frame whose registers are all known
  const arch::EntryRegisters& entry;
  const Definitions& definitions;
  std::uint64_t generation;
  Truncation reason = Truncation::kNone;  ///< set when the walk ends before the outermost frame
};

namespace detail {
extern RuleCache rules [[gnu::visibility("hidden")]];
}  // namespace detail

/// Finds the rule of a program counter that is not in the cache, whose module must be confirmed, or that has none.
/// May define a module.
[[gnu::noinline]] Rule find_rule_slow(const Walk& walk, FrameAddress address) noexcept;

/// The module of code without one is never confirmed, so find_rule_slow() decides about its rules.
inline Rule find_rule(const Walk& walk, FrameAddress address) noexcept {
  const Rule rule = detail::rules.find(address);
  if (rule.kind() != RuleKind::kNone &&
      state_of(rule.module()).confirmed.load(std::memory_order_acquire) == walk.generation) [[likely]]
    return rule;
  return find_rule_slow(walk, address);
}

/// The step by frame pointer, from walk.state.
[[gnu::noinline]] StepResult step_by_frame_pointer(Walk& walk, StackWord*& words) noexcept;

/// The step by a rule of a kind that few frames have, from walk.state.
[[gnu::noinline]] StepResult step_rare(Walk& walk, Rule rule, StackWord*& words, std::uint16_t& flags) noexcept;

inline StepResult truncated(Walk& walk, Truncation reason) noexcept {
  walk.reason = reason;
  return StepResult::kTruncated;
}

/// Returns the value of the frame register. A slot may be read: its address was checked when it was found.
inline std::uint64_t read_fp(State& state, StackWord*& words) noexcept {
  if ((state.flags & kFpIsSlot) != 0) {
    const std::uint64_t slot = state.fp;
    state.fp = load_word(slot);
    state.flags &= static_cast<std::uint16_t>(~kFpIsSlot);
    *words++ = {slot, state.fp};
  }
  return state.fp;
}

/// Replaces `state` by the caller's state and appends the words that it reads to `words`. `flags` are those of the
/// frame from which the step starts; the step adds kBarrier, kSignalFrame, kFpRestored and kFpUnchanged to them where
/// they apply.
[[gnu::always_inline]] inline StepResult step(State& state, Walk& walk, Rule rule, StackWord*& words,
                                              std::uint16_t& flags) noexcept {
  const auto by_walk_state = [&](auto&& function) noexcept {
    walk.state = state;
    const StepResult result = function();
    state = walk.state;
    return result;
  };
  std::uint64_t cfa;
  std::uint64_t fp_slot;
  if (rule.kind() == RuleKind::kSp) {
    // If frame records are not at the top of their frames (aarch64), sp is unknown after a step by frame pointer.
    if (!arch::kCallPushesReturnAddress && (state.flags & kByFramePointer) != 0)
      return by_walk_state([&]() noexcept { return step_by_frame_pointer(walk, words); });
    cfa = to_address(state.sp) + rule.cfa_offset();
    fp_slot = cfa + rule.fp_offset();
    flags |= rule.fp_unchanged() ? kFpUnchanged : kFpRestored;
  } else if (rule.kind() == RuleKind::kFp) {
    cfa = read_fp(state, words) + rule.cfa_offset();
    fp_slot = cfa + rule.fp_offset();
  } else if (rule.kind() == RuleKind::kRealigned) {
    const std::uint64_t fp = read_fp(state, words);
    const std::uint64_t slot = fp + rule.cfa_offset();
    if (slot % 8 != 0 || slot < to_address(state.sp) || !walk.bounds.readable(slot))
      return truncated(walk, Truncation::kBadAddress);
    cfa = load_word(slot);
    *words++ = {slot, cfa};
    fp_slot = fp + rule.fp_offset();
  } else {
    return by_walk_state([&]() noexcept { return step_rare(walk, rule, words, flags); });
  }
  const std::uint64_t ra_slot = cfa + rule.ra_offset();
  // A CFA that is not above the last one, or not readable, is on another stack or wrong.
  if (cfa % 8 != 0 || cfa <= to_address(state.sp) || !walk.bounds.readable(ra_slot)) [[unlikely]] {
    if (rule.kind() == RuleKind::kSp || cfa % 8 != 0 || walk.bounds.contains(ra_slot) || !walk.bounds.cross(ra_slot))
      return truncated(walk, Truncation::kBadAddress);
    flags |= kBarrier;
  }
  const std::uint64_t ra = load_word(ra_slot);
  *words++ = {ra_slot, ra};
  if (!rule.fp_unchanged()) {
    if (fp_slot % 8 != 0 || !walk.bounds.readable(fp_slot)) [[unlikely]]
      return truncated(walk, Truncation::kBadAddress);
    state.fp = fp_slot;
    state.flags = kFpIsSlot;
  } else {
    state.flags &= kFpIsSlot;
  }
  const std::uint64_t pc = arch::strip(ra);
  state.pc = ProgramCounter{pc};
  state.sp = StackPointer{cfa};
  if (pc - 1 < arch::kCodeEnd) [[likely]]
    return StepResult::kCaller;
  return pc == 0 ? StepResult::kOutermost : truncated(walk, Truncation::kBadAddress);
}

}  // namespace heapprof::unwind
