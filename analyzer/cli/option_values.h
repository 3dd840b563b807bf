// Kinds of values that several options take. A wrong one is answered with what is allowed, in a user's words.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace heapprof::cli {

template <typename Value>
using WordsFor = std::vector<std::pair<std::string, Value>>;

/// For Option::transform: one of these words, each of which stands for a value of an enumeration. The option's type,
/// in help and completions, lists them in this order.
template <typename Value>
CLI::Validator one_of(const WordsFor<Value>& words) {
  std::string type, list;
  for (const auto& [word, value] : words) {
    type += (type.empty() ? "" : "|") + word;
    list += (list.empty() ? "" : ", ") + word;
  }
  return CLI::Validator(
      [words, list](std::string& text) {
        for (const auto& [word, value] : words) {
          if (text != word) continue;
          text = std::to_string(static_cast<long>(value));
          return std::string();
        }
        return "'" + text + "' is none of " + list;
      },
      type);
}

/// For Option::transform: a whole number, which may have a unit that counts in 1024s (4K, 200M, 2G, also 200MB or
/// 200MiB).
inline CLI::Validator whole_size() {
  return CLI::Validator(
      [](std::string& text) {
        const std::string wrong =
            "'" + text + "' is no size: give a whole number, alone or with a unit (4K, 200M, 2G)";
        // The parser alone reads "-1" and any number that is too large as 2^64-1, and "K" as 1K.
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc()) return wrong;
        try {
          return CLI::AsSizeValue(false)(text).empty() ? std::string() : wrong;
        } catch (const CLI::ValidationError&) {  // a unit that it does not know
          return wrong;
        }
      },
      "SIZE");
}

}  // namespace heapprof::cli
