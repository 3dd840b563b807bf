#include "preload/unwind/full_unwind.h"

#include "preload/unwind/expression.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/registered_frames.h"
#include "preload/unwind/stack_word.h"

namespace heapprof::unwind {

namespace {

/// An upper bound of the number of the recorder's frames between a hook and a capture.
constexpr unsigned kMaxRecorderFrames = 64;

bool read_word(std::uint64_t address, StackBounds& bounds, std::uint64_t& value) noexcept {
  if (address % 8 != 0 || !bounds.readable(address)) return false;
  value = load_word(address);
  return true;
}

/// Checks a step from the stack pointer `from` to `to`: to a higher address of the same stack, or to another stack,
/// which becomes the current one.
bool move(std::uint64_t from, std::uint64_t to, StackBounds& bounds) noexcept {
  if (to % 8 != 0 || to < 8) return false;
  if (to >= from + (arch::kCallPushesReturnAddress ? 8 : 0) && bounds.readable(to - 8)) return true;
  return !bounds.contains(to - 8) && bounds.cross(to - 8);
}

bool fits_words(std::int64_t bytes, std::int64_t max_words) noexcept {
  return bytes % 8 == 0 && bytes / 8 <= max_words && bytes / 8 >= -max_words;
}

}  // namespace

RowKind find_row(const ElfObject* object, FrameAddress address, CfiRow& row) noexcept {
  const std::uint64_t pc = to_address(address.pc);
  const std::uint64_t at = address.lookup();
  CfiEntry entry;
  CfiResult result;
  if (object != nullptr) {
    result = find_cfi(*object, at, entry);
    // The kernel's signal frame is read directly; its unwind information is ignored.
    if ((result == CfiResult::kNone || (result == CfiResult::kFound && entry.signal_frame)) &&
        object->text.contains(pc) && object->text.end - pc >= arch::kSignalReturnBytes &&
        arch::is_signal_return(reinterpret_cast<const std::uint8_t*>(pc)))
      return RowKind::kSignal;
  } else {
    // An emulator (qemu-user) places the code to which handlers return at the beginning of a separate page.
    if (pc % 4096 == 0 && probe(pc) && arch::is_signal_return(reinterpret_cast<const std::uint8_t*>(pc)))
      return RowKind::kSignal;
    const Span frames = find_registered(at);
    result = frames.begin == 0 ? CfiResult::kNone : find_cfi_linear(frames, at, entry);
  }
  if (result == CfiResult::kNone) {
    // A return address that is the first instruction of a function was not pushed by a call, but by a program that
    // created a stack (makecontext).
    if (object != nullptr && !address.interrupted && find_cfi(*object, pc, entry) == CfiResult::kFound &&
        entry.pc_begin == pc)
      return RowKind::kOutermost;
    return RowKind::kNone;
  }
  if (result == CfiResult::kInvalid || entry.ra_register != arch::kDwarfRa || !run_cfi(entry, at, row))
    return RowKind::kInvalid;
  return RowKind::kRow;
}

Rule make_rule(const CfiRow& row, ModuleId module, std::uint64_t pc) noexcept {
  const Rule full{RuleKind::kFull, module};
  const RegisterRule ra = row.rule[arch::kDwarfRa];
  if (ra == RegisterRule::kUndefined) return {RuleKind::kOutermost, module};
  if (ra == RegisterRule::kSame && arch::kCallPushesReturnAddress) return {RuleKind::kInvalid, module};
  if (ra != RegisterRule::kOffset || !fits_words(row.value[arch::kDwarfRa], Rule::kMaxSlotWords)) return full;
  if (row.rule[arch::kDwarfSp] != RegisterRule::kSame) return full;

  Formula cfa;
  if (row.cfa_is_expression) cfa = simplify(row, row.cfa_offset, pc);
  else if (row.cfa_register == arch::kDwarfSp) cfa = {Formula::kSp, row.cfa_offset};
  else if (row.cfa_register == arch::kDwarfFp) cfa = {Formula::kFp, row.cfa_offset};
  RuleKind kind;
  switch (cfa.kind) {
    case Formula::kSp: kind = RuleKind::kSp; break;
    case Formula::kFp: kind = RuleKind::kFp; break;
    case Formula::kAtFp: kind = RuleKind::kRealigned; break;
    default: return full;
  }
  if (!fits_words(cfa.offset, Rule::kMaxCfaWords)) return full;

  std::int64_t fp = Rule::kFpUnchanged * 8;
  const std::int64_t value = row.value[arch::kDwarfFp];
  switch (row.rule[arch::kDwarfFp]) {
    case RegisterRule::kSame: break;
    case RegisterRule::kOffset:
      if (kind == RuleKind::kRealigned || !fits_words(value, Rule::kMaxSlotWords)) return full;
      fp = value;
      break;
    case RegisterRule::kExpression: {
      // The register is saved relative to the frame pointer instead of the CFA, as in realigned frames.
      const Formula slot = simplify(row, value, pc);
      if (slot.kind != Formula::kFp || kind == RuleKind::kSp) return full;
      fp = kind == RuleKind::kFp ? slot.offset - cfa.offset : slot.offset;
      if (!fits_words(fp, Rule::kMaxSlotWords)) return full;
      break;
    }
    default: return full;
  }
  return {kind, module, cfa.offset / 8, fp / 8, row.value[arch::kDwarfRa] / 8};
}

bool read_frame_record(StackPointer sp, std::uint64_t fp, StackBounds& bounds, FrameRecord& record) noexcept {
  if (fp < to_address(sp) || !read_word(fp, bounds, record.fp) || !read_word(fp + 8, bounds, record.return_address))
    return false;
  if (record.return_address == 0) return true;
  record.return_address = arch::strip(record.return_address);
  // Accepted if the chain of records ends or continues to a higher address, or if the return address is code.
  if (record.fp == 0 || (record.fp % 8 == 0 && record.fp > fp && bounds.readable(record.fp))) return true;
  return is_code(record.return_address - 1);
}

bool read_signal_frame(StackPointer sp, StackBounds& bounds, FullFrame& frame) noexcept {
  arch::Registers& registers = frame.registers;
  for (unsigned number = 0; number < arch::kDwarfRegisters; ++number)
    if (!read_word(to_address(sp) + arch::kSignalFrameOffset[number], bounds, registers.value[number])) return false;
  registers.known = (std::uint64_t{1} << arch::kDwarfRegisters) - 1;
  frame.interrupted = true;
  frame.valid = true;
  const std::uint64_t interrupted = to_address(frame.sp());
  if (interrupted % 8 != 0) return false;
  return bounds.contains(interrupted) || (interrupted > to_address(sp) && bounds.readable(interrupted)) ||
         bounds.cross(interrupted);
}

StepResult step_full(FullFrame& frame, StackBounds& bounds, std::uint64_t generation, Truncation& reason) noexcept {
  const auto truncated = [&](Truncation why) noexcept {
    reason = why;
    frame.valid = false;
    return StepResult::kTruncated;
  };
  const arch::Registers now = frame.registers;
  const FrameAddress address = frame.address();
  CfiRow row;
  switch (find_row(find_module(address.lookup(), generation), address, row)) {
    case RowKind::kInvalid: return truncated(Truncation::kBadRule);
    case RowKind::kOutermost: return StepResult::kOutermost;
    case RowKind::kSignal:
      return read_signal_frame(frame.sp(), bounds, frame) ? StepResult::kCaller : truncated(Truncation::kBadAddress);
    case RowKind::kNone: {
      FrameRecord record;
      if (frame.fp() == 0) return StepResult::kOutermost;
      if (!read_frame_record(frame.sp(), frame.fp(), bounds, record)) return truncated(Truncation::kNoUnwindInfo);
      if (record.return_address == 0) return StepResult::kOutermost;
      frame.registers.value[arch::kDwarfSp] = frame.fp() + 16;
      frame.registers.value[arch::kDwarfFp] = record.fp;
      frame.registers.value[arch::kPcColumn] = record.return_address;
      frame.registers.known = std::uint64_t{1} << arch::kDwarfSp | std::uint64_t{1} << arch::kDwarfFp |
                              std::uint64_t{1} << arch::kPcColumn;
      frame.interrupted = false;
      return StepResult::kCaller;
    }
    case RowKind::kRow: break;
  }
  const RegisterRule ra = row.rule[arch::kDwarfRa];
  if (ra == RegisterRule::kUndefined) return StepResult::kOutermost;
  if (ra == RegisterRule::kSame && arch::kCallPushesReturnAddress) return truncated(Truncation::kBadRule);

  std::uint64_t cfa;
  if (row.cfa_is_expression) {
    if (!evaluate(row, row.cfa_offset, now, bounds, nullptr, cfa)) return truncated(Truncation::kBadRule);
  } else {
    if ((now.known >> row.cfa_register & 1) == 0) return truncated(Truncation::kBadRule);
    cfa = now.value[row.cfa_register] + static_cast<std::uint64_t>(row.cfa_offset);
  }
  if (!move(to_address(frame.sp()), cfa, bounds)) return truncated(Truncation::kBadAddress);

  arch::Registers& next = frame.registers;
  for (unsigned number = 0; number < arch::kDwarfRegisters; ++number) {
    const std::uint64_t bit = std::uint64_t{1} << number;
    const std::int64_t value = row.value[number];
    next.known |= bit;
    switch (row.rule[number]) {
      case RegisterRule::kSame:
        if ((now.known & bit) == 0) next.known &= ~bit;
        break;
      case RegisterRule::kUndefined: next.known &= ~bit; break;
      case RegisterRule::kOffset:
        if (!read_word(cfa + static_cast<std::uint64_t>(value), bounds, next.value[number])) next.known &= ~bit;
        break;
      case RegisterRule::kValOffset: next.value[number] = cfa + static_cast<std::uint64_t>(value); break;
      case RegisterRule::kRegister:
        next.value[number] = now.value[value];
        if ((now.known >> value & 1) == 0) next.known &= ~bit;
        break;
      case RegisterRule::kExpression: {
        std::uint64_t address;
        if (!evaluate(row, value, now, bounds, &cfa, address) || !read_word(address, bounds, next.value[number]))
          next.known &= ~bit;
        break;
      }
      case RegisterRule::kValExpression:
        if (!evaluate(row, value, now, bounds, &cfa, next.value[number])) next.known &= ~bit;
        break;
    }
  }
  if ((next.known >> arch::kDwarfRa & 1) == 0) return truncated(Truncation::kBadRule);
  next.value[arch::kPcColumn] = arch::strip(next.value[arch::kDwarfRa]);
  next.known |= std::uint64_t{1} << arch::kPcColumn;
  if (row.rule[arch::kDwarfSp] == RegisterRule::kSame) {
    next.value[arch::kDwarfSp] = cfa;
  } else if ((next.known >> arch::kDwarfSp & 1) == 0 || !move(cfa - 8, to_address(frame.sp()), bounds)) {
    return truncated(Truncation::kBadAddress);
  }
  next.known |= std::uint64_t{1} << arch::kDwarfSp;
  frame.interrupted = false;
  return to_address(frame.pc()) == 0 ? StepResult::kOutermost : StepResult::kCaller;
}

[[gnu::noinline]] bool unwind_to_entry(FullFrame& frame, const arch::EntryRegisters& entry, StackBounds& bounds,
                                       std::uint64_t generation) noexcept {
  arch::take_registers(frame.registers);
  frame.interrupted = true;
  frame.valid = true;
  if (!bounds.cross(to_address(frame.sp()))) return false;
  Truncation reason;
  for (unsigned i = 0; i < kMaxRecorderFrames; ++i) {
    if (step_full(frame, bounds, generation, reason) != StepResult::kCaller) return false;
    if (frame.pc() == entry.pc && frame.sp() == entry.sp) return true;
  }
  return false;
}

}  // namespace heapprof::unwind
