// C strings without libc, for the recorder, which may call few functions of libc, and for the settings grammar that
// it shares with the launcher (settings_grammar.h). Every `text` ends with NUL. Nothing here allocates; all functions
// are safe in signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof {

inline std::size_t text_length(const char* text) noexcept {
  std::size_t length = 0;
  while (text[length] != '\0') ++length;
  return length;
}

inline bool text_equal(const char* a, const char* b) noexcept {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

/// The part of `text` after `prefix`, or null if `text` does not begin with `prefix`.
inline const char* after_prefix(const char* text, const char* prefix) noexcept {
  while (*prefix != '\0') {
    if (*text++ != *prefix++) return nullptr;
  }
  return text;
}

/// The part of a path after its last '/'; the whole path if it has no '/'.
inline const char* base_name(const char* path) noexcept {
  const char* base = path;
  for (; *path != '\0'; ++path)
    if (*path == '/') base = path + 1;
  return base;
}

/// Reads decimal digits at `text` and advances it past them. False if there is no digit, or the number exceeds 64
/// bits; `text` and `value` are then unspecified.
inline bool parse_number(const char*& text, std::uint64_t& value) noexcept {
  if (*text < '0' || *text > '9') return false;
  value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value)) return false;
    if (__builtin_add_overflow(value, static_cast<std::uint64_t>(*text - '0'), &value)) return false;
  }
  return true;
}

/// The value of a hexadecimal digit (lower case), or -1.
constexpr int hex_digit(char c) noexcept {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace heapprof
