// Cached steps: the unwind steps that a thread took recently, found by the (pc, sp) from which they start.
//
// Programs allocate at many call sites near the top of a stack whose outer part stays the same. The shadow stack
// contains the stack of one of these call sites. From the others, cached steps lead to a frame of the shadow stack.
// Repeating a step only reads the return address: rule, module and bounds were checked when the step was first taken.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "preload/arch/arch.h"
#include "preload/unwind/definitions.h"
#include "preload/unwind/frame.h"
#include "preload/unwind/rule.h"
#include "preload/unwind/step.h"

namespace heapprof::unwind {

/// A step from (pc, sp) to the frame at `cfa`, by a rule of kind kSp or kFp.
struct CachedStep {
  ProgramCounter pc;
  StackPointer sp;
  StackPointer cfa;
  Rule rule;
  std::uint64_t version;  ///< cache_version() when it was taken
  NodeId parent;          ///< the node of the caller when a capture last used this step
  NodeId node;            ///< the node of this frame then; kNone: unknown
};

/// What cached steps and paths depend on besides the stack's contents. Both numbers only increase, so equal sums mean
/// that both are equal.
inline std::uint64_t cache_version(std::uint64_t generation, std::uint32_t bounds_version) noexcept {
  return generation + bounds_version;
}

inline constexpr std::uint32_t kCachedStepBits = 10;
/// A stack that is more steps away from a frame of the shadow stack is walked, and becomes the shadow stack.
inline constexpr std::uint32_t kMaxCachedSteps = 12;

/// Two-way set-associative: the second entry of a set holds what the first one held before.
struct CachedSteps {
  CachedStep entries[1u << kCachedStepBits];

  CachedStep* set_of(ProgramCounter pc, StackPointer sp) noexcept {
    return &entries[((to_address(pc) ^ to_address(sp) << 20) * 0x9e3779b97f4a7c15 >> (65 - kCachedStepBits)) * 2];
  }

  /// Returns null when the step from `state` is not cached.
  CachedStep* find(const State& state, std::uint64_t version) noexcept {
    CachedStep* const at = set_of(state.pc, state.sp);
    if (at[0].pc == state.pc && at[0].sp == state.sp && at[0].version == version) [[likely]]
      return at;
    if (at[1].pc == state.pc && at[1].sp == state.sp && at[1].version == version) return at + 1;
    return nullptr;
  }

  /// Adds the step that was just taken from `frame` to `cfa`, if it is of a kind that is cached.
  void add(const Frame& frame, Rule rule, StackPointer cfa, std::uint64_t version) noexcept {
    if ((frame.flags & (kInterrupted | kByFramePointer | kBarrier)) != 0) return;
    if (rule.kind() != RuleKind::kSp && rule.kind() != RuleKind::kFp) return;
    CachedStep* const at = set_of(frame.pc, frame.sp);
    if (at[0].pc != frame.pc || at[0].sp != frame.sp) at[1] = at[0];
    at[0] = {frame.pc, frame.sp, cfa, rule, version, NodeId::kNone, NodeId::kNone};
  }
};

/// The offset of a frame in its module, like offset_of(const Frame&). A cached step always starts from a frame that
/// made a call.
inline std::uint64_t offset_of(const CachedStep& step) noexcept {
  return to_address(step.pc) - 1 - state_of(step.rule.module()).load_bias;
}

/// The last capture by cached steps.
struct LastSteps {
  std::uint32_t anchor;  ///< the frame of the shadow stack to which the steps led
  std::uint32_t count;
  NodeId nodes[kMaxCachedSteps];  ///< of the frames of the steps, outermost first
};

struct ThreadData;

/// Captures the stack that begins with `entry` by cached steps to a verified frame of the shadow stack. Returns kNone
/// when that is not possible. Removes frames that have returned from the shadow stack. Adds frames of the steps to it
/// if the last capture had them, too.
[[gnu::noinline]] NodeId capture_by_cached_steps(ThreadData& data, const arch::EntryRegisters& entry,
                                                 const Definitions& definitions) noexcept;

}  // namespace heapprof::unwind
