#include "analyzer/render/text.h"

#include <cstdint>
#include <cstdio>

namespace heapprof::render {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr std::string_view kEllipsis = "\xe2\x80\xa6";

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

constexpr bool is_identifier(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Position after the bracket that closes the one at `open`, or npos. Other kinds of brackets nest; `->`
/// and the operators with angle brackets do not count.
std::size_t after_closing(std::string_view name, std::size_t open) noexcept {
  const char opening = name[open];
  const char closing = opening == '<' ? '>' : ')';
  std::size_t depth = 0;
  for (std::size_t i = open; i < name.size(); ++i) {
    const char c = name[i];
    if (c == opening) ++depth;
    else if (c == closing && !(c == '>' && i > 0 && name[i - 1] == '-') && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
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

void append_xml(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
}

std::string xml(std::string_view text) {
  std::string out;
  append_xml(out, text);
  return out;
}

void append_script_json(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '<':
      case '>':
      case '&': {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
        out += escape;
        break;
      }
      default: out += c;
    }
  }
  out += '"';
}

void append_csv(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
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

std::string short_name(std::string_view name) {
  constexpr std::string_view kOperator = "operator";
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string out;
  out.reserve(name.size());
  for (std::size_t i = 0; i < name.size();) {
    const std::string_view rest = name.substr(i);
    if (rest.starts_with(kOperator) && (i == 0 || !is_identifier(name[i - 1]))) {
      // The operator's own symbols are part of the name, whatever brackets they are made of.
      std::size_t end = kOperator.size();
      if (rest.substr(end).starts_with("()")) end += 2;
      else while (end < rest.size() && std::string_view("<>=-").find(rest[end]) != std::string_view::npos) ++end;
      out += rest.substr(0, end);
      i += end;
    } else if (rest.starts_with(kAnonymous)) {
      out += kAnonymous;
      i += kAnonymous.size();
    } else if (rest[0] == '<' || rest[0] == '(') {
      const std::size_t after = after_closing(name, i);
      if (after == std::string_view::npos) return std::string(name);
      if (rest[0] == '(') {
        out += "()";
      } else if (i == 0 || rest.starts_with("<impl ")) {
        // Rust: `<T as Trait>::method` opens with what distinguishes it.
        out += name.substr(i, after - i);
      } else {
        out.append("<").append(kEllipsis).append(">");
      }
      i = after;
    } else {
      out += rest[0];
      ++i;
    }
  }
  return out;
}

std::string fit_name(std::string_view short_name, std::size_t code_points) {
  std::string_view name = short_name;
  while (length_utf8(name) > code_points) {
    std::size_t next = std::string_view::npos;
    int depth = 0;
    for (std::size_t i = 0; i + 2 < name.size() && next == std::string_view::npos; ++i) {
      if (name[i] == '<' || name[i] == '(' || name[i] == '{') ++depth;
      else if (name[i] == '>' || name[i] == ')' || name[i] == '}') --depth;
      else if (depth == 0 && name[i] == ':' && name[i + 1] == ':') next = i + 2;
    }
    if (next == std::string_view::npos) break;
    name.remove_prefix(next);
  }
  return clip_utf8(name, code_points);
}

std::string fit_path(std::string_view path, std::size_t code_points) {
  if (length_utf8(path) <= code_points) return std::string(path);
  for (std::size_t at = path.find('/', 1); at != std::string_view::npos; at = path.find('/', at + 1))
    if (const std::string_view rest = path.substr(at); length_utf8(rest) + 1 <= code_points)
      return std::string(kEllipsis).append(rest);
  return clip_utf8(path.substr(path.rfind('/') + 1), code_points);
}

}  // namespace heapprof::render
