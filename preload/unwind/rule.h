// An unwind rule in 64 bits: how to get from a frame at one program counter to its caller. Nearly all frames of real
// programs have one of the simple kinds. The others are unwound with all registers (full_unwind.h).
//
//   bits   0..3   kind
//          4..19  module (modules.h returns no id above 16 bits)
//         20..39  CFA offset, signed, in words
//         40..51  fp offset, signed, in words: where the caller's frame register is saved
//         52..63  ra offset from the CFA, signed, in words: where the return address is
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace heapprof::unwind {

enum class RuleKind : std::uint8_t {
  kNone = 0,          ///< no rule: an empty entry of the cache
  kSp = 1,            ///< CFA = sp + CFA offset; the caller's frame register is saved at CFA + fp offset
  kFp = 2,            ///< CFA = fp + CFA offset; the caller's frame register is saved at CFA + fp offset
  kRealigned = 3,     ///< CFA = the word at fp + CFA offset; the register is saved at fp + fp offset (GCC's DRAP)
  kOutermost = 4,     ///< the return address is undefined
  kSignal = 5,        ///< the frame to which a signal handler returns: registers from the ucontext
  kNoUnwindInfo = 6,  ///< no unwind information: the frame pointer is tried
  kFull = 7,          ///< needs other registers or a DWARF expression
  kInvalid = 8,       ///< damaged unwind information
};

class Rule {
 public:
  static constexpr std::int64_t kMaxCfaWords = (1 << 19) - 1;
  static constexpr std::int64_t kMaxSlotWords = (1 << 11) - 1;
  /// The value of `fp_words` if the caller's frame register equals that of this frame.
  static constexpr std::int64_t kFpUnchanged = -(1 << 11);

  constexpr Rule() noexcept = default;
  constexpr explicit Rule(std::uint64_t bits) noexcept : bits_(bits) {}
  constexpr Rule(RuleKind kind, ModuleId module, std::int64_t cfa_words = 0, std::int64_t fp_words = kFpUnchanged,
                 std::int64_t ra_words = -1) noexcept
      : bits_(static_cast<std::uint64_t>(kind) | std::uint64_t{raw(module)} << 4 |
              (static_cast<std::uint64_t>(cfa_words) & 0xfffff) << 20 |
              (static_cast<std::uint64_t>(fp_words) & 0xfff) << 40 | static_cast<std::uint64_t>(ra_words) << 52) {}

  constexpr std::uint64_t bits() const noexcept { return bits_; }
  constexpr RuleKind kind() const noexcept { return static_cast<RuleKind>(bits_ & 0xf); }
  constexpr ModuleId module() const noexcept { return ModuleId{static_cast<std::uint32_t>(bits_ >> 4 & 0xffff)}; }
  constexpr bool fp_unchanged() const noexcept { return (bits_ >> 40 & 0xfff) == 0x800; }
  // In bytes, modulo 2^64, to be added to an address.
  constexpr std::uint64_t cfa_offset() const noexcept { return field(24, 20); }
  constexpr std::uint64_t fp_offset() const noexcept { return field(12, 12); }
  constexpr std::uint64_t ra_offset() const noexcept { return field(0, 12); }

 private:
  /// The field with `above` bits above it, sign-extended and multiplied by 8.
  constexpr std::uint64_t field(unsigned above, unsigned width) const noexcept {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits_ << above) >> (64 - width)) << 3;
  }

  std::uint64_t bits_ = 0;
};

}  // namespace heapprof::unwind
