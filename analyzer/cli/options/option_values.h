// Kinds of values that several options take. A wrong one is answered with what is allowed, in a user's words.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
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

/// Reads the decimal digits at the start of `text`, and nothing else: no sign, no 0x, and 010 is ten. False: there are
/// none, or the number exceeds 64 bits.
inline bool read_digits(std::string_view& text, std::uint64_t& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

/// For Option::transform: a whole number without a unit, up to `max`. The parser alone reads "-1" as 2^64-1, "010" as
/// 8 and "0x10" as 16.
inline CLI::Validator whole_number(std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) {
  return CLI::Validator(
      [max](std::string& text) {
        std::string_view rest = text;
        std::uint64_t number = 0;
        if (!read_digits(rest, number) || !rest.empty() || number > max)
          return "invalid value '" + text + "'; expected a whole number such as 20";
        text = std::to_string(number);
        return std::string();
      },
      "");
}

/// For Option::transform: a whole number, which may have a unit that counts in 1024s (4K, 200M, 2G, also 200MB or
/// 200MiB).
inline CLI::Validator whole_size() {
  return CLI::Validator(
      [](std::string& text) {
        const std::string wrong =
            "'" + text + "' is no size: give a whole number, alone or with a unit (4K, 200M, 2G)";
        std::string_view rest = text;
        std::uint64_t number = 0;
        if (!read_digits(rest, number)) return wrong;
        while (rest.starts_with(' ')) rest.remove_prefix(1);
        std::string unit = CLI::detail::to_lower(std::string(rest));
        if (unit.ends_with("ib")) unit.resize(unit.size() - 2);
        else if (unit.ends_with('b')) unit.pop_back();
        constexpr std::string_view kUnits = "kmgtpe";
        const std::size_t power = unit.empty() ? 0 : kUnits.find(unit) + 1;  // npos + 1 is 0
        if (!unit.empty() && (unit.size() != 1 || power == 0)) return wrong;
        if (power != 0 && number >> (64 - 10 * power) != 0) return wrong;
        text = std::to_string(number << 10 * power);
        return std::string();
      },
      "SIZE");
}

/// For Option::check, beside a range: those of the parser let "nan" through.
inline CLI::Validator finite_number() {
  return CLI::Validator(
      [](std::string& text) {
        double number = 0;
        return CLI::detail::lexical_cast(text, number) && std::isfinite(number)
                   ? std::string()
                   : "invalid value '" + text + "'; expected a number";
      },
      "");
}

/// What is said of an empty value, behind the name of its option or argument.
inline const std::string kEmptyValue =
    "the value is empty (is a variable not set?); give a value, or leave it out altogether";

/// Makes every option and argument of `app` and its commands refuse an empty value: where one is not set, the command
/// would answer another question than was asked.
inline void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* const option : app.get_options())
    if (option->get_items_expected_max() > 0)
      option->check([](const std::string& text) { return text.empty() ? kEmptyValue : std::string(); }, "");
  for (CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
    refuse_empty_values(*command);
}

}  // namespace heapprof::cli
