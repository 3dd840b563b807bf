// Words of the stack that unwinding read, with the values that it found.
#pragma once

#include <cstdint>

namespace heapprof::unwind {

/// Reads a word of the host's stack, which the host may change at any time.
inline std::uint64_t load_word(std::uint64_t address) noexcept {
  return *reinterpret_cast<const volatile std::uint64_t*>(address);
}

struct StackWord {
  std::uint64_t address;
  std::uint64_t value;

  bool unchanged() const noexcept { return load_word(address) == value; }
};

/// The maximum number of words that one unwind step reads.
inline constexpr std::uint32_t kWordsPerFrame = 3;

/// Lists of words are compared this many at a time, from the end. The comparison may therefore read up to
/// kWordStride - 1 entries before the beginning of a list.
inline constexpr std::uint32_t kWordStride = 4;

}  // namespace heapprof::unwind
