#include "analyzer/render/short_names.h"

#include "analyzer/base/base_name.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

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

std::string without_arguments(std::string_view name) {
  constexpr std::string_view kOperator = "operator";
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  constexpr std::string_view kUnknownPython = "(unknown Python code)";
  std::string out;
  out.reserve(name.size());
  for (std::size_t i = 0; i < name.size();) {
    const std::string_view rest = name.substr(i);
    if (rest.starts_with(kOperator) && (i == 0 || !is_identifier(name[i - 1]))) {
      // The operator's own symbols are part of the name, whatever brackets they are made of.
      std::size_t end = kOperator.size();
      if (rest.substr(end).starts_with("()")) end += 2;
      else
        while (end < rest.size() && std::string_view("<>=-").find(rest[end]) != std::string_view::npos) ++end;
      out += rest.substr(0, end);
      i += end;
    } else if (rest.starts_with(kAnonymous)) {
      out += kAnonymous;
      i += kAnonymous.size();
    } else if (rest.starts_with(kUnknownPython)) {
      out += kUnknownPython;
      i += kUnknownPython.size();
    } else if (rest[0] == '<' || rest[0] == '(') {
      const std::size_t after = after_closing(name, i);
      if (after == std::string_view::npos) return std::string(name);
      if (rest[0] == '(') {
        out += "()";
      } else if (i == 0 || name[i - 1] == '.' || rest.starts_with("<impl ")) {
        // Rust: `<T as Trait>::method` opens with what distinguishes it. Python: `outer.<locals>.inner`.
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

std::string fit_name(std::string_view name, std::size_t code_points) {
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
  return clip_utf8(base_name(std::string(path)), code_points);
}

}  // namespace heapprof::render
