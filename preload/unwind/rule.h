// An unwind rule in 64 bits: how to get from one frame to the one that called it, for one program counter.
// Nearly every frame of real programs has one of the simple kinds; what does not fit is left to the full
// interpreter (full_unwind.h), which knows all registers.
//
//   bits   0..3   kind
//          4..19  module, a ModuleId that fits (modules.h hands out no larger one)
//         20..39  cfa, signed, in words
//         40..51  fp, signed, in words: where the caller's frame register is saved
//         52..63  ra, signed, in words from the CFA: where the return address is
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace heapprof::unwind {

enum class RuleKind : std::uint8_t {
  kNone = 0,      ///< no rule: the empty entry of the cache
  kSp = 1,        ///< CFA = sp + cfa; the frame register at CFA + fp
  kFp = 2,        ///< CFA = fp + cfa; the frame register at CFA + fp
  kRealigned = 3, ///< CFA = the word at fp + cfa; the frame register at the old fp + fp (GCC's DRAP frames)
  kEnd = 4,       ///< outermost frame: the return address is undefined
  kSignal = 5,    ///< the signal frame: registers from the ucontext
  kNoInfo = 6,    ///< no unwind information: try the frame pointer
  kFull = 7,      ///< needs other registers or a DWARF expression
  kBad = 8,       ///< unwind information that cannot be understood
};

class Rule {
 public:
  static constexpr std::int64_t kMaxCfaWords = (1 << 19) - 1;
  static constexpr std::int64_t kMaxSlotWords = (1 << 11) - 1;
  /// As fp: the caller's frame register is the one at hand.
  static constexpr std::int64_t kSame = -(1 << 11);

  constexpr Rule() noexcept = default;
  constexpr explicit Rule(std::uint64_t bits) noexcept : bits_(bits) {}
  constexpr Rule(RuleKind kind, ModuleId module, std::int64_t cfa_words = 0, std::int64_t fp_words = kSame,
                 std::int64_t ra_words = -1) noexcept
      : bits_(static_cast<std::uint64_t>(kind) | std::uint64_t{raw(module)} << 4 |
              (static_cast<std::uint64_t>(cfa_words) & 0xfffff) << 20 |
              (static_cast<std::uint64_t>(fp_words) & 0xfff) << 40 | static_cast<std::uint64_t>(ra_words) << 52) {}

  constexpr std::uint64_t bits() const noexcept { return bits_; }
  constexpr RuleKind kind() const noexcept { return static_cast<RuleKind>(bits_ & 0xf); }
  constexpr ModuleId module() const noexcept { return ModuleId{static_cast<std::uint32_t>(bits_ >> 4 & 0xffff)}; }
  constexpr bool fp_is_same() const noexcept { return (bits_ >> 40 & 0xfff) == 0x800; }
  // In bytes, ready to be added.
  constexpr std::uint64_t cfa() const noexcept { return field(24, 20); }
  constexpr std::uint64_t fp() const noexcept { return field(12, 12); }
  constexpr std::uint64_t ra() const noexcept { return field(0, 12); }

 private:
  /// The field that ends `above` bits below the top, sign-extended, times 8.
  constexpr std::uint64_t field(unsigned above, unsigned width) const noexcept {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits_ << above) >> (64 - width)) << 3;
  }

  std::uint64_t bits_ = 0;
};

}  // namespace heapprof::unwind
