#include "analyzer/render/utf8.h"

#include <cstdint>

namespace heapprof::render {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr bool is_continuation(char byte) noexcept { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// Bytes of the valid sequence at `at`, or 0. Overlong forms, surrogates and values above U+10FFFF are
/// invalid (Unicode 15, table 3-7).
std::size_t sequence_bytes(std::string_view bytes, std::size_t at, std::uint32_t& code_point) noexcept {
  const auto byte = [&](std::size_t i) noexcept { return static_cast<unsigned char>(bytes[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    code_point = first;
    return 1;
  }
  const std::size_t count = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes.size() - at < count) return 0;
  code_point = first & (0x7f >> count);
  for (std::size_t i = 1; i < count; ++i) {
    if (!is_continuation(bytes[at + i])) return 0;
    code_point = code_point << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  return code_point < kSmallest[count] || surrogate || code_point > 0x10ffff ? 0 : count;
}

constexpr bool is_forbidden(std::uint32_t code_point) noexcept {
  return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) || code_point == 0xfffe ||
         code_point == 0xffff;
}

}  // namespace

std::string clean_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t i = 0; i < bytes.size();) {
    std::uint32_t code_point = 0;
    const std::size_t count = sequence_bytes(bytes, i, code_point);
    if (count == 0 || is_forbidden(code_point)) out += kReplacement;
    else out += bytes.substr(i, count);
    i += count == 0 ? 1 : count;
  }
  return out;
}

std::size_t length_utf8(std::string_view text) noexcept {
  std::size_t length = 0;
  for (const char c : text) length += !is_continuation(c);
  return length;
}

std::string clip_utf8(std::string_view text, std::size_t code_points) {
  if (length_utf8(text) <= code_points) return std::string(text);
  if (code_points == 0) return {};
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end)
    if (!is_continuation(text[end]) && seen++ == code_points - 1) break;
  return std::string(text.substr(0, end)).append(kEllipsis);
}

std::string pad_left(std::string_view text, std::size_t code_points) {
  const std::size_t length = length_utf8(text);
  return std::string(length < code_points ? code_points - length : 0, ' ').append(text);
}

std::string pad_right(std::string_view text, std::size_t code_points) {
  const std::size_t length = length_utf8(text);
  return std::string(text).append(length < code_points ? code_points - length : 0, ' ');
}

}  // namespace heapprof::render
