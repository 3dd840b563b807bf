// Searches code for direct branches with a 32-bit displacement, without decoding it: every byte may begin one.
#pragma once

#include <emmintrin.h>

#include <cstdint>

namespace heapprof::intercept {

/// Length of the opcode whose displacement would be at `displacement`: call and jmp have one byte, a conditional jump
/// (0f 80 to 0f 8f) and xbegin (c7 f8) two. 0: the bytes before it are no such opcode. Reads two bytes before it, of
/// which the first only if it is not before `begin`.
inline unsigned near_branch_opcode(std::uint64_t displacement, std::uint64_t begin) noexcept {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(displacement);
  if (bytes[-1] == 0xe8 || bytes[-1] == 0xe9) return 1;
  if (displacement - begin < 2) return 0;
  const bool conditional = bytes[-2] == 0x0f && (bytes[-1] & 0xf0) == 0x80;
  return conditional || (bytes[-2] == 0xc7 && bytes[-1] == 0xf8) ? 2 : 0;
}

/// Calls visit(at, to) for each address `at` in the readable bytes [begin, end) where a branch to `to` in [low, high)
/// would begin, if an instruction begins there; in no order.
template <typename Visit>
void find_near_branches(std::uint64_t begin, std::uint64_t end, std::uint64_t low, std::uint64_t high,
                        Visit&& visit) noexcept {
  constexpr std::uint64_t kDisplacementBytes = 4;
  constexpr std::uint64_t kShortest = 1 + kDisplacementBytes;
  if (end < begin || end - begin < kShortest || low >= high) return;
  const auto check = [&](std::uint64_t displacement) noexcept {
    std::int32_t distance;
    __builtin_memcpy(&distance, reinterpret_cast<const void*>(displacement), sizeof distance);
    const std::uint64_t to = displacement + kDisplacementBytes + static_cast<std::uint64_t>(std::int64_t{distance});
    if (to - low >= high - low) return;
    if (const unsigned opcode = near_branch_opcode(displacement, begin)) visit(displacement - opcode, to);
  };
  std::uint64_t at = begin + 1;
  const std::uint64_t last = end - kDisplacementBytes;  // address of the last possible displacement
  constexpr std::uint64_t kBlock = 16;                  // displacements that are compared at a time
  const auto load = [](std::uint64_t from) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };

  // Compares targets, because opcodes are frequent and these targets are not. Modulo 2^32, and with the offset of the
  // first of four neighbours for all of them: so some displacements are checked in vain, and none is left out.
  const auto compare_targets = [&](std::uint64_t blocks) noexcept {
    constexpr std::uint64_t kNeighbours = 4;
    constexpr std::uint32_t kSign = 0x80000000;  // SSE2 compares signed numbers only
    const auto vector_of = [](std::uint32_t value) noexcept { return _mm_set1_epi32(static_cast<int>(value)); };
    const __m128i limit = vector_of(static_cast<std::uint32_t>(high - low + kNeighbours - 1) ^ kSign);
    const auto first = static_cast<std::uint32_t>(at + kDisplacementBytes - low + kNeighbours - 1) ^ kSign;
    __m128i base = _mm_add_epi32(vector_of(first), _mm_set_epi32(12, 8, 4, 0));
    for (; blocks != 0; --blocks, at += kBlock, base = _mm_add_epi32(base, vector_of(kBlock))) {
      const auto in_range = [&](std::uint64_t neighbour) noexcept {
        return _mm_cmplt_epi32(_mm_add_epi32(base, load(at + neighbour)), limit);
      };
      const __m128i ranges[kNeighbours] = {in_range(0), in_range(1), in_range(2), in_range(3)};
      const __m128i any = _mm_or_si128(_mm_or_si128(ranges[0], ranges[1]), _mm_or_si128(ranges[2], ranges[3]));
      if (_mm_movemask_epi8(any) == 0) [[likely]]
        continue;
      for (std::uint64_t i = 0; i < kNeighbours; ++i)
        for (auto lanes = static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(ranges[i]))); lanes != 0;
             lanes &= lanes - 1)
          check(at + i + 4u * static_cast<unsigned>(__builtin_ctz(lanes)));
    }
  };

  // Compares the upper halves of displacements, which takes half as many instructions. `matches`: compares eight
  // words with those that they may have.
  const auto compare_halves = [&](std::uint64_t blocks, auto&& matches) noexcept {
    for (; blocks != 0; --blocks, at += kBlock) {
      const __m128i even = matches(load(at + 2));
      const __m128i odd = matches(load(at + 3));
      if (_mm_movemask_epi8(_mm_or_si128(even, odd)) == 0) [[likely]]
        continue;
      constexpr unsigned kOneBitEach = 0x5555;  // of the two bytes of a word
      unsigned matching = (static_cast<unsigned>(_mm_movemask_epi8(even)) & kOneBitEach) |
                          (static_cast<unsigned>(_mm_movemask_epi8(odd)) & kOneBitEach) << 1;
      for (; matching != 0; matching &= matching - 1) check(at + static_cast<unsigned>(__builtin_ctz(matching)));
    }
  };

  // The largest distance to a target decreases by one from a displacement to the next one. So as long as its lower
  // half is at least the size of the range, all distances have its upper half; else that one or the one below it, up
  // to the displacement where the lower half is 0.
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 16;
  const std::uint64_t bytes = high - low;
  while (bytes < (kHalf << 15) && at < last && last - at >= kBlock + 2) {
    std::uint64_t blocks = (last - at - 2) / kBlock;  // whose bytes can be read
    if (bytes > kHalf / 2 - 2 * kBlock) {
      compare_targets(blocks);
      break;
    }
    const std::uint64_t largest = high - 1 - at - kDisplacementBytes;
    const std::uint64_t lower = largest % kHalf;
    const bool one_half = lower + 2 >= bytes + kBlock;
    const std::uint64_t displacements = one_half ? lower + 2 - bytes : lower + 1;
    if (displacements < kBlock) {
      for (std::uint64_t i = 0; i != displacements; ++i) check(at++);
      continue;
    }
    if (blocks > displacements / kBlock) blocks = displacements / kBlock;
    const auto upper = static_cast<std::uint16_t>(largest / kHalf);
    const auto below = static_cast<std::uint16_t>(upper - 1);
    // Those of small numbers, which are frequent.
    const auto is_frequent = [](std::uint16_t half) noexcept { return half == 0 || half == 0xffff; };
    if (is_frequent(upper) || (!one_half && is_frequent(below))) {
      compare_targets(blocks);
      continue;
    }
    const __m128i first = _mm_set1_epi16(static_cast<short>(upper));
    const __m128i second = _mm_set1_epi16(static_cast<short>(below));
    if (one_half) {
      compare_halves(blocks, [&](__m128i words) noexcept { return _mm_cmpeq_epi16(words, first); });
    } else {
      compare_halves(blocks, [&](__m128i words) noexcept {
        return _mm_or_si128(_mm_cmpeq_epi16(words, first), _mm_cmpeq_epi16(words, second));
      });
    }
  }
  for (; at <= last; ++at) check(at);
}

}  // namespace heapprof::intercept
