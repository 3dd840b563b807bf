// Call frame information: .eh_frame as the Linux Standard Base describes it (LSB 5.0 core, 10.5 to 10.6),
// the instructions as DWARF 5 does (section 6.4.2). Finds the entry of a program counter and runs its
// instructions up to there; what comes out is a row: how each register of the caller is found.
//
// Reads nothing outside the spans it is given, uses a bounded amount of time and some 1 KB of stack.
#pragma once

#include <cstdint>

#include "preload/arch/arch.h"
#include "preload/unwind/modules.h"

namespace heapprof::unwind {

enum class CfiResult : std::uint8_t {
  kFound,
  kNone,  ///< no entry covers the program counter
  kBad,   ///< what is there cannot be understood
};

/// A frame description entry with its common information entry, taken apart.
struct CfiEntry {
  std::uint64_t pc_begin;
  std::uint64_t pc_end;
  Span initial;       ///< the common instructions
  Span instructions;  ///< the entry's own
  std::uint64_t code_factor;
  std::int64_t data_factor;
  std::uint64_t ra_register;
  std::uint8_t pointer_encoding;
  bool signal_frame;  ///< augmentation S
};

/// The entry of `pc` in a module, through the binary search table of .eh_frame_hdr, or one by one where
/// there is none.
CfiResult find_cfi(const Module& module, std::uint64_t pc, CfiEntry& entry) noexcept;

/// The entry of `pc` in a sequence of entries.
CfiResult find_cfi_linear(Span frames, std::uint64_t pc, CfiEntry& entry) noexcept;

/// For every entry in a sequence of them, its range of program counters joined to `range`; `frames.end` is
/// set behind the terminator. False: cannot be understood.
bool cfi_range(Span& frames, Span& range) noexcept;

enum class RegisterRule : std::uint8_t {
  kSame = 0,       ///< also: nothing was said
  kUndefined,
  kOffset,         ///< saved at CFA + value
  kValOffset,      ///< is CFA + value
  kRegister,       ///< is the register `value`
  kExpression,     ///< saved at the address that the expression computes
  kValExpression,  ///< is what the expression computes
};

/// How the caller's registers are found at one program counter. Expressions are given as distance from
/// `expressions` to their length (ULEB128), which the bytes follow.
struct CfiRow {
  std::uint64_t expressions;
  Span bounds;  ///< of expressions
  bool cfa_is_expression;
  std::uint8_t cfa_register;
  std::int64_t cfa_offset;  ///< or the expression's distance
  RegisterRule rule[arch::kDwarfRegisters];
  std::int32_t value[arch::kDwarfRegisters];
};

/// Runs the instructions of `entry` up to `pc`. False: cannot be understood.
bool run_cfi(const CfiEntry& entry, std::uint64_t pc, CfiRow& row) noexcept;

/// Reads little numbers between two addresses; past the end it yields zeros and remembers.
class CfiReader {
 public:
  explicit CfiReader(Span span) noexcept : at_(span.begin), end_(span.end) {}

  bool ok() const noexcept { return ok_; }
  bool more() const noexcept { return ok_ && at_ < end_; }
  std::uint64_t at() const noexcept { return at_; }
  Span rest() const noexcept { return {at_, end_}; }
  void fail() noexcept { ok_ = false; }

  template <typename T>
  T take() noexcept {
    T value{};
    if (end_ - at_ < sizeof value) {
      ok_ = false;
      at_ = end_;
      return value;
    }
    __builtin_memcpy(&value, reinterpret_cast<const void*>(at_), sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t uleb() noexcept;
  std::int64_t sleb() noexcept;
  /// DW_EH_PE_... (LSB 5.0, 10.5.1). `data_base`: for datarel. Indirect pointers are refused.
  std::uint64_t pointer(std::uint8_t encoding, std::uint64_t data_base) noexcept;
  void skip(std::uint64_t bytes) noexcept {
    if (end_ - at_ < bytes) {
      ok_ = false;
      at_ = end_;
    } else {
      at_ += bytes;
    }
  }

 private:
  std::uint64_t at_;
  std::uint64_t end_;
  bool ok_ = true;
};

}  // namespace heapprof::unwind
