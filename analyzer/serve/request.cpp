#include "analyzer/serve/request.h"

#include <algorithm>

namespace heapprof::serve {
namespace {

/// The value of a hexadecimal digit; -1: it is none.
int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Control characters are refused, since no path, option or name needs them.
bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (text.size() - i < 3) return std::nullopt;
      const int high = digit_of(text[i + 1]), low = digit_of(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (is_control(c)) return std::nullopt;
    result += c;
  }
  return result;
}

}  // namespace

std::optional<Target> parse_target(std::string_view target) {
  if (!target.starts_with('/')) return std::nullopt;
  target = target.substr(0, target.find('#'));
  const std::size_t question = target.find('?');
  std::optional<std::string> path = decode(target.substr(0, question), false);
  if (!path) return std::nullopt;
  Target result{std::move(*path), {}};
  std::string_view query = question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    std::optional<std::string> name = decode(pair.substr(0, equals), true);
    std::optional<std::string> value =
        decode(equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!name || !value) return std::nullopt;
    result.parameters.push_back({std::move(*name), std::move(*value)});
  }
  return result;
}

std::string_view cookie_value(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    std::string_view pair = header.substr(0, header.find(';'));
    header.remove_prefix(std::min(pair.size() + 1, header.size()));
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
  }
  return {};
}

const std::string* find(const Parameters& parameters, std::string_view name) {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& one) { return one.name == name; });
  return found == parameters.end() ? nullptr : &found->value;
}

}  // namespace heapprof::serve
