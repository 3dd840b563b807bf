// A bounded buffer for messages, paths and settings. Text beyond the end of the buffer is dropped;
// overflowed() then returns true. Never allocates; the buffer belongs to the caller. Safe in signal handlers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/c_string.h"

namespace heapprof {

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
  /// Decimal.
  Text& number(std::uint64_t value) noexcept {
    char digits[20];
    std::size_t count = 0;
    do digits[count++] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    while (count != 0) add(digits[--count]);
    return *this;
  }
  /// 16 hexadecimal digits.
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

}  // namespace heapprof
