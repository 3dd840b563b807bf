#include "preload/unwind/step.h"

#include <atomic>

#include "preload/unwind/return_path.h"

namespace heapprof::unwind {

namespace detail {
constinit RuleCache rules;
constinit FollowedCode followed_code{};
constinit ReturnPathFinder* return_path_finder = nullptr;
}  // namespace detail

namespace {

/// The generation in which the rules of code without a module were last removed. Only in it are they valid.
constinit std::atomic<std::uint64_t> g_anonymous_generation{0};

/// The rule of code without unwind information, by its return path where code may be followed.
Rule rule_by_return_path(ModuleId module, std::uint64_t pc) noexcept {
  const Rule none{RuleKind::kNoUnwindInfo, module};
  if (detail::return_path_finder == nullptr || !detail::followed_code.text.contains(pc)) return none;
  const ReturnPath path = detail::return_path_finder(detail::followed_code, pc);
  if (path.end == ReturnPath::End::kUnknown) return none;
  if (path.end == ReturnPath::End::kNeverReturns) return {RuleKind::kOutermost, module};
  const std::int64_t cfa = path.cfa_offset / 8;
  const std::int64_t fp = path.fp_saved ? path.fp_offset / 8 : Rule::kFpUnchanged;
  if (path.cfa_offset % 8 != 0 || path.fp_offset % 8 != 0 || cfa > Rule::kMaxCfaWords || fp < Rule::kFpUnchanged ||
      (path.fp_saved && -fp > Rule::kMaxSlotWords))
    return none;
  return {path.from_fp ? RuleKind::kFp : RuleKind::kSp, module, cfa, fp};
}

}  // namespace

Rule find_rule_slow(const Walk& walk, FrameAddress address) noexcept {
  if (g_anonymous_generation.load(std::memory_order_acquire) != walk.generation) {
    detail::rules.remove(ModuleId::kAnonymous);
    g_anonymous_generation.store(walk.generation, std::memory_order_release);
  }
  // After the removal, whichever thread has done it: a rule that was read before may have been removed since.
  const Rule cached = detail::rules.find_anywhere(address);
  const bool is_cached = cached.kind() != RuleKind::kNone;
  if (is_cached && cached.module() == ModuleId::kAnonymous) return cached;

  Module* module = find_module(address.lookup(), walk.generation);
  if (module != nullptr) {
    define(*module, walk.definitions);
    if (is_cached && cached.module() == module->id) return cached;
  }
  const ModuleId id = module != nullptr ? module->id : ModuleId::kAnonymous;
  CfiRow row;
  Rule rule;
  switch (find_row(module, address, row)) {
    case RowKind::kRow: rule = make_rule(row, id, address.lookup()); break;
    case RowKind::kSignal: rule = {RuleKind::kSignal, id}; break;
    case RowKind::kOutermost: rule = {RuleKind::kOutermost, id}; break;
    case RowKind::kNone: rule = rule_by_return_path(id, to_address(address.pc)); break;
    case RowKind::kInvalid: rule = {RuleKind::kInvalid, id}; break;
  }
  // The rule of code without a module and without registered unwind information is not cached, because such code can
  // change unnoticed.
  if (module != nullptr || rule.kind() != RuleKind::kNoUnwindInfo) detail::rules.store(address, rule);
  return rule;
}

namespace {

/// Sets the walk's state to the frame that full unwinding has found.
StepResult continue_from_full(Walk& walk) noexcept {
  if (to_address(walk.full.pc()) >= arch::kCodeEnd) {
    walk.full.valid = false;
    return truncated(walk, Truncation::kBadAddress);
  }
  walk.state = {walk.full.pc(), walk.full.sp(), walk.full.fp(),
                static_cast<std::uint16_t>(walk.full.interrupted ? kInterrupted : 0)};
  return StepResult::kCaller;
}

[[gnu::noinline]] StepResult step_signal(Walk& walk) noexcept {
  if (!read_signal_frame(walk.state.sp, walk.bounds, walk.full)) {
    walk.full.valid = false;
    return truncated(walk, Truncation::kBadAddress);
  }
  return continue_from_full(walk);
}

/// Unwinds with all registers, from the last frame where they are known, to the walk's frame and then to its caller.
[[gnu::noinline]] StepResult step_all_registers(Walk& walk) noexcept {
  FullFrame& full = walk.full;
  if (!full.valid && !unwind_to_entry(full, walk.entry, walk.bounds, walk.generation)) {
    full.valid = false;
    return truncated(walk, Truncation::kBadRule);
  }
  for (std::uint32_t i = 0; full.pc() != walk.state.pc || full.sp() != walk.state.sp; ++i) {
    if (i == kMaxFrames || step_full(full, walk.bounds, walk.generation, walk.reason) != StepResult::kCaller) {
      full.valid = false;
      return truncated(walk, Truncation::kBadRule);
    }
  }
  const StepResult result = step_full(full, walk.bounds, walk.generation, walk.reason);
  return result == StepResult::kCaller ? continue_from_full(walk) : result;
}

}  // namespace

StepResult step_rare(Walk& walk, Rule rule, StackWord*& words, std::uint16_t& flags) noexcept {
  switch (rule.kind()) {
    case RuleKind::kOutermost: flags |= kFpRestored; return StepResult::kOutermost;
    case RuleKind::kNoUnwindInfo: return step_by_frame_pointer(walk, words);
    case RuleKind::kSignal: flags |= kSignalFrame | kBarrier; return step_signal(walk);
    case RuleKind::kFull: flags |= kBarrier; return step_all_registers(walk);
    default: return truncated(walk, Truncation::kBadRule);
  }
}

StepResult step_by_frame_pointer(Walk& walk, StackWord*& words) noexcept {
  State& state = walk.state;
  const std::uint64_t fp = read_fp(state, words);
  if (fp == 0) return StepResult::kOutermost;  // System V ABI, x86-64 supplement, 3.4.1: fp of the outermost frame
  FrameRecord record;
  if (!read_frame_record(state.sp, fp, walk.bounds, record)) return truncated(walk, Truncation::kNoUnwindInfo);
  *words++ = {fp, record.fp};
  *words++ = {fp + 8, load_word(fp + 8)};
  if (record.return_address == 0) return StepResult::kOutermost;
  if (record.return_address >= arch::kCodeEnd) return truncated(walk, Truncation::kNoUnwindInfo);
  state = {ProgramCounter{record.return_address}, StackPointer{fp + 16}, record.fp, kByFramePointer};
  return StepResult::kCaller;
}

}  // namespace heapprof::unwind
