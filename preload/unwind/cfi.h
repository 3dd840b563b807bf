// Call frame information: reads .eh_frame (Linux Standard Base 5.0 core, 10.5 and 10.6) and runs its instructions
// (DWARF 5, section 6.4.2). Finds the entry of a program counter and computes the row of the unwind table for it: how
// each register of the caller is restored.
//
// Reads nothing outside the given spans, takes bounded time and uses about 1 KB of stack.
#pragma once

#include <cstdint>

#include "preload/arch/arch.h"
#include "preload/unwind/elf_object.h"

namespace heapprof::unwind {

enum class CfiResult : std::uint8_t {
  kFound,
  kNone,     ///< no entry covers the program counter
  kInvalid,  ///< the data is damaged, or of a kind that is not implemented
};

/// A frame description entry (FDE) with the applicable fields of its common information entry (CIE).
struct CfiEntry {
  std::uint64_t pc_begin;
  std::uint64_t pc_end;
  Span initial_instructions;  ///< of the CIE
  Span instructions;          ///< of the FDE
  std::uint64_t code_factor;
  std::int64_t data_factor;
  std::uint64_t ra_register;
  std::uint8_t pointer_encoding;
  bool signal_frame;  ///< augmentation S
};

/// Finds the entry of `pc` in an object: by the binary search table of .eh_frame_hdr, or by a linear search if there
/// is no such table.
CfiResult find_cfi(const ElfObject& object, std::uint64_t pc, CfiEntry& entry) noexcept;

/// Finds the entry of `pc` in a sequence of entries.
CfiResult find_cfi_linear(Span frames, std::uint64_t pc, CfiEntry& entry) noexcept;

/// Finds the range of program counters that a sequence of entries covers, from the lowest to the highest, and sets
/// `frames.end` to the end of the terminator. Returns false when the entries are invalid or cover nothing.
bool cfi_range(Span& frames, Span& range) noexcept;

/// Finds the code of the function that holds `pc`, by the unwind information of the object loaded at `map`. The
/// object must stay loaded during the call. Returns false when no entry covers `pc`.
bool find_function(const Span& map, std::uint64_t pc, Span& function) noexcept;

enum class RegisterRule : std::uint8_t {
  kSame = 0,  ///< unchanged; also registers without a rule
  kUndefined,
  kOffset,         ///< saved at CFA + value
  kValOffset,      ///< equal to CFA + value
  kRegister,       ///< in the register `value`
  kExpression,     ///< saved at the address that the expression computes
  kValExpression,  ///< the value that the expression computes
};

/// How the caller's registers are restored at one program counter. An expression is given by the distance of its
/// length (ULEB128) from `expressions`; the bytes of the expression follow the length.
struct CfiRow {
  std::uint64_t expressions;
  Span bounds;  ///< no expression extends beyond it
  bool cfa_is_expression;
  std::uint8_t cfa_register;
  std::int64_t cfa_offset;  ///< or the distance of the expression
  RegisterRule rule[arch::kDwarfRegisters];
  std::int32_t value[arch::kDwarfRegisters];
};

/// Runs the instructions of `entry` up to `pc`. Returns false when they are invalid.
bool run_cfi(const CfiEntry& entry, std::uint64_t pc, CfiRow& row) noexcept;

/// Reads little-endian numbers and LEB128 in a span. After an attempt to read past the end ok() is false, and all
/// further values are 0.
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
  /// Reads a pointer of this DW_EH_PE encoding (LSB 5.0, 10.5.1). `data_base` is the base of DW_EH_PE_datarel.
  /// Indirect pointers fail.
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
