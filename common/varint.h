// Variable-length integers: seven bits per byte, least significant first, the top bit set on all bytes but the last
// (the encoding of DWARF's ULEB128 and of protocol buffers). A 64-bit value takes 1 to 10 bytes. Signed values are
// mapped to unsigned ones first (zigzag), so that small magnitudes of either sign stay short.
//
// The encoder does not check bounds: the caller provides kMaxVarintBytes of space. The decoder checks the end of the
// input and the range of the value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heapprof {

inline constexpr std::size_t kMaxVarintBytes = 10;

/// Writes `value` at `out` and returns the byte after it. May overwrite all of the kMaxVarintBytes from `out`. An
/// encoding of three to eight bytes is computed without a loop: lengths alternate at random, so the branches of a
/// loop would be mispredicted.
inline std::uint8_t* put_varint(std::uint8_t* out, std::uint64_t value) noexcept {
  if (value < 0x80) {
    *out = static_cast<std::uint8_t>(value);
    return out + 1;
  }
  if (value < 0x4000) {
    out[0] = static_cast<std::uint8_t>(value) | 0x80;
    out[1] = static_cast<std::uint8_t>(value >> 7);
    return out + 2;
  }
  if (value >> 56 != 0) [[unlikely]] {
    for (; value >= 0x80; value >>= 7) *out++ = static_cast<std::uint8_t>(value) | 0x80;
    *out++ = static_cast<std::uint8_t>(value);
    return out;
  }
  const unsigned more = (std::bit_width(value | 1) - 1u) / 7;  // bytes after the first
  value = (value & 0x000000000fffffff) | (value & 0x00fffffff0000000) << 4;
  value = (value & 0x00003fff00003fff) | (value & 0x0fffc0000fffc000) << 2;
  value = (value & 0x007f007f007f007f) | (value & 0x3f803f803f803f80) << 1;
  value |= 0x8080808080808080 & ((std::uint64_t{1} << (8 * more)) - 1);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  std::memcpy(out, &value, sizeof value);
  return out + more + 1;
}

/// get_varint byte by byte: for the last bytes of a buffer, and for numbers of more than eight bytes.
inline const std::uint8_t* get_varint_slowly(const std::uint8_t* in, const std::uint8_t* end,
                                             std::uint64_t& value) noexcept {
  std::uint64_t result = 0;
  for (unsigned shift = 0; shift < 70 && in < end; shift += 7) {
    const std::uint64_t byte = *in++;
    if (shift == 63 && byte > 1) return nullptr;
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      value = result;
      return in;
    }
  }
  return nullptr;
}

/// Reads a value from [in, end) into `value` and returns the byte after it, or nullptr when the bytes end too early
/// or the value exceeds 64 bits.
///
/// Up to eight bytes are decoded from one load without a branch, in about 15 instructions: in most columns the
/// lengths alternate at random, so branches on them would be mispredicted.
inline const std::uint8_t* get_varint(const std::uint8_t* in, const std::uint8_t* end,
                                      std::uint64_t& value) noexcept {
  if (end - in < 8) [[unlikely]]
    return get_varint_slowly(in, end, value);
  std::uint64_t word;
  std::memcpy(&word, in, sizeof word);
  const std::uint64_t last = ~word & 0x8080808080808080;  // the top bits of bytes that end a number
  if (last == 0) [[unlikely]]
    return get_varint_slowly(in, end, value);
  word &= (last ^ (last - 1)) & 0x7f7f7f7f7f7f7f7f;  // the bytes of the first number, 7 bits each
  word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
  word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
  value = (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
  return in + (std::countr_zero(last) + 1) / 8;
}

/// get_varint for columns of small numbers: up to four bytes take about 10 instructions.
inline const std::uint8_t* get_small_varint(const std::uint8_t* in, const std::uint8_t* end,
                                            std::uint64_t& value) noexcept {
  if (end - in < 4) [[unlikely]]
    return get_varint_slowly(in, end, value);
  std::uint32_t word;
  std::memcpy(&word, in, sizeof word);
  const std::uint32_t last = ~word & 0x80808080;
  if (last == 0) [[unlikely]]
    return get_varint(in, end, value);
  word &= last ^ (last - 1);
  word = (word & 0x007f007f) | (word & 0x7f007f00) >> 1;
  value = (word & 0x00003fff) | (word & 0x3fff0000) >> 2;
  return in + (static_cast<unsigned>(std::countr_zero(last)) + 1) / 8;
}

/// 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
constexpr std::uint64_t zigzag(std::int64_t value) noexcept {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

constexpr std::int64_t unzigzag(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

}  // namespace heapprof
