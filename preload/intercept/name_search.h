// Finds where certain names begin in a string table, without a copy of the whole table, which has some MB in large
// programs and would have to be faulted in. Symbols are in no order of their names, and names that end with another
// one contain it, so a symbol can refer to the middle of a string.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::intercept {

inline constexpr std::size_t kLongestName = 64;  ///< of those that are found
inline constexpr std::size_t kShortestName = 4;
/// Of the memory for find_names().
inline constexpr std::size_t kNamePieceBytes = 32u << 10;

/// The last four bytes of a name, loaded as a word.
constexpr std::uint32_t last_word_of(const char* name) noexcept {
  std::uint32_t word = 0;
  for (; *name != '\0'; ++name) word = word >> 8 | std::uint32_t{static_cast<unsigned char>(*name)} << 24;
  return word;
}

/// The length of a name as a set of lengths, which has bit n - 1 for n bytes.
constexpr std::uint64_t length_bit(const char* name) noexcept {
  std::size_t length = 0;
  while (name[length] != '\0') ++length;
  return std::uint64_t{1} << (length - 1);
}
static_assert(kLongestName <= 64);

struct EveryLength {
  constexpr std::uint64_t operator()(std::uint32_t) const noexcept { return ~std::uint64_t{0}; }
};

/// Reads a string table of `table_bytes` in pieces into `memory`, and calls visit(name, offset) for each text that
/// ends with one of its strings, if may_end(last) is true for the text's last four bytes, loaded as a word, and its
/// length is one of lengths(last). `read(to, bytes, offset)` copies a part of the table. Returns false when it did,
/// too, which ends the search.
template <typename Read, typename MayEnd, typename Visit, typename Lengths = EveryLength>
bool find_names(std::uint64_t table_bytes, char* memory, Read&& read, MayEnd&& may_end, Visit&& visit,
                Lengths lengths = {}) noexcept {
  using Vector [[gnu::vector_size(16)]] = unsigned char;
  constexpr std::uint64_t kOneBitEach = 0x8080808080808080;
  const auto end_string = [&](std::size_t end, std::uint64_t offset) noexcept {
    std::uint32_t last;
    if (end < sizeof last) return;
    __builtin_memcpy(&last, memory + end - sizeof last, sizeof last);
    if (!may_end(last)) return;
    std::uint64_t wanted = lengths(last);
    for (std::size_t bytes = 1; wanted != 0 && bytes <= end && memory[end - bytes] != '\0'; ++bytes, wanted >>= 1)
      if (bytes >= kShortestName && (wanted & 1) != 0)
        visit(static_cast<const char*>(memory + end - bytes), offset + end - bytes);
  };
  std::size_t kept = 0;  // bytes from the end of the piece before
  for (std::uint64_t at = 0; at < table_bytes;) {
    const std::uint64_t left = table_bytes - at;
    const std::size_t bytes = left < kNamePieceBytes - kept ? left : kNamePieceBytes - kept;
    if (!read(memory + kept, bytes, at)) return false;
    const std::uint64_t offset = at - kept;
    const std::size_t length = kept + bytes;
    std::size_t i = kept;
    for (; i + sizeof(Vector) <= length; i += sizeof(Vector)) {
      Vector vector;
      __builtin_memcpy(&vector, memory + i, sizeof vector);
      const auto equal = vector == Vector{};  // all bits of each byte that is zero
      std::uint64_t words[2];
      __builtin_memcpy(words, &equal, sizeof words);
      if ((words[0] | words[1]) == 0) [[likely]]
        continue;
      for (std::size_t half = 0; half != 2; ++half)
        for (std::uint64_t zeros = words[half] & kOneBitEach; zeros != 0; zeros &= zeros - 1)
          end_string(i + 8 * half + static_cast<std::size_t>(__builtin_ctzll(zeros)) / 8, offset);
    }
    for (; i < length; ++i)
      if (memory[i] == '\0') end_string(i, offset);
    kept = length < kLongestName ? length : kLongestName;
    __builtin_memmove(memory, memory + length - kept, kept);
    at += bytes;
  }
  return true;
}

}  // namespace heapprof::intercept
