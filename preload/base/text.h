// Text without libc: a bounded buffer that messages, paths and settings are written into. What does not
// fit is dropped, and overflowed() tells so. Never allocates; the buffer belongs to the caller.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::recorder {

inline std::size_t text_length(const char* text) noexcept {
  std::size_t length = 0;
  while (text[length] != '\0') ++length;
  return length;
}

inline bool text_equal(const char* a, const char* b) noexcept {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

/// `text` without `prefix`, or null when it does not begin with it.
inline const char* after_prefix(const char* text, const char* prefix) noexcept {
  while (*prefix != '\0') {
    if (*text++ != *prefix++) return nullptr;
  }
  return text;
}

/// Reads decimal digits at `text`, moves it past them; false when there is none or it exceeds 64 bits.
inline bool parse_number(const char*& text, std::uint64_t& value) noexcept {
  if (*text < '0' || *text > '9') return false;
  value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value)) return false;
    if (__builtin_add_overflow(value, static_cast<std::uint64_t>(*text - '0'), &value)) return false;
  }
  return true;
}

class Text {
 public:
  template <std::size_t kSize>
  explicit Text(char (&buffer)[kSize]) noexcept : Text(buffer, kSize) {}
  Text(char* buffer, std::size_t size) noexcept : begin_(buffer), size_(size) { buffer[0] = '\0'; }

  Text& add(char c) noexcept {
    if (length_ + 1 >= size_) {
      overflowed_ = true;
    } else {
      begin_[length_++] = c;
      begin_[length_] = '\0';
    }
    return *this;
  }
  Text& add(const char* text) noexcept {
    while (*text != '\0') add(*text++);
    return *this;
  }
  Text& add(const char* text, std::size_t length) noexcept {
    for (std::size_t i = 0; i < length; ++i) add(text[i]);
    return *this;
  }
  Text& number(std::uint64_t value) noexcept {
    char digits[20];
    std::size_t count = 0;
    do digits[count++] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    while (count != 0) add(digits[--count]);
    return *this;
  }
  Text& hex(std::uint64_t value) noexcept {
    for (int shift = 60; shift >= 0; shift -= 4) add("0123456789abcdef"[value >> shift & 15]);
    return *this;
  }

  const char* c_str() const noexcept { return begin_; }
  std::size_t length() const noexcept { return length_; }
  bool overflowed() const noexcept { return overflowed_; }

 private:
  char* begin_;
  std::size_t size_;
  std::size_t length_ = 0;
  bool overflowed_ = false;
};

}  // namespace heapprof::recorder
