#include "analyzer/base/labels.h"

#include <algorithm>
#include <cstddef>

#include "common/settings_grammar.h"

namespace heapprof {
namespace {

std::string percent_decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? any_hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? any_hex_digit(text[i + 2]) : -1;
    if (low < 0) {
      result += text[i];
      continue;
    }
    result += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return result;
}

}  // namespace

std::string encode_labels(const Labels& labels) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string text;
  for (const auto& [key, value] : labels) {
    text += (text.empty() ? "" : ",") + key + "=";
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (c > ' ' && c <= '~' && c != ',' && c != '%') text += c;
      else (text += '%') += {kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text;
}

Labels decode_labels(std::string_view text) {
  Labels labels;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const std::size_t equals = one.find('=');
    if (equals != std::string_view::npos && equals != 0)
      labels[std::string(one.substr(0, equals))] = percent_decoded(one.substr(equals + 1));
  }
  return labels;
}

}  // namespace heapprof
