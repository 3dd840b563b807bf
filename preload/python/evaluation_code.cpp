#include "preload/python/evaluation_code.h"

#include "preload/unwind/cfi.h"

namespace heapprof::python {

namespace {

/// Counts into which functions a function jumps, but not to their beginnings.
class JumpTargets {
 public:
  JumpTargets(const unwind::Span& module, const unwind::Span& function) noexcept
      : module_(module), function_(function) {}

  void add(std::uint64_t target) noexcept {
    if (target - function_.begin < function_.end - function_.begin || target < module_.begin || target >= module_.end)
      return;
    for (Target& known : targets_)
      if (target > known.code.begin && target < known.code.end) {
        ++known.jumps;
        return;
      }
    unwind::Span code{};
    if (count_ == kMaxTargets || !unwind::find_function(module_, target, code) || code.begin == target) return;
    targets_[count_++] = {code, 1};
  }

  /// The function with the most jumps. Other bytes than jumps were taken for some, but hardly twice for one function.
  unwind::Span most() const noexcept {
    Target most{};
    for (const Target& target : targets_)
      if (target.jumps > most.jumps) most = target;
    return most.jumps >= 2 ? most.code : unwind::Span{};
  }

 private:
  static constexpr unsigned kMaxTargets = 16;
  struct Target {
    unwind::Span code;
    std::uint32_t jumps;
  };
  const unwind::Span& module_;
  const unwind::Span& function_;
  Target targets_[kMaxTargets] = {};
  unsigned count_ = 0;
};

}  // namespace

EvaluationCode find_evaluation_code(const unwind::Span& module, std::uint64_t load_bias,
                                    std::uint64_t function) noexcept {
  constexpr std::uint64_t kMaxBytes = 1u << 20, kLongestJump = 6;
  unwind::Span main{};
  if (function == 0 || !unwind::find_function(module, function, main) || main.end - main.begin > kMaxBytes ||
      main.end - main.begin < kLongestJump)
    return {};
  JumpTargets targets(module, main);
  for (std::uint64_t at = main.begin; at <= main.end - kLongestJump; ++at) {
    const auto* const code = reinterpret_cast<const unsigned char*>(at);
    // jcc and jmp with a distance of 32 bits
    const unsigned opcode_bytes = code[0] == 0x0f && (code[1] & 0xf0) == 0x80 ? 2 : code[0] == 0xe9 ? 1 : 0;
    if (opcode_bytes == 0) continue;
    std::int32_t distance;
    __builtin_memcpy(&distance, code + opcode_bytes, sizeof distance);
    targets.add(at + opcode_bytes + sizeof distance + static_cast<std::uint64_t>(std::int64_t{distance}));
  }
  const unwind::Span cold = targets.most();
  EvaluationCode result{{main.begin - load_bias, main.end - load_bias}, {}};
  if (cold.end != 0) result.cold = {cold.begin - load_bias, cold.end - load_bias};
  return result;
}

}  // namespace heapprof::python
