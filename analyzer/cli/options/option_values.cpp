#include "analyzer/cli/options/option_values.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

namespace heapprof::cli {
namespace {

/// Reads and removes the decimal digits at the start of `text`. False: there are none, or the number exceeds 64 bits.
bool take_digits(std::string_view& text, std::uint64_t& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

}  // namespace

std::string ascii_lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

bool read_whole_number(std::string_view text, std::uint64_t& number, std::uint64_t max) {
  std::uint64_t read = 0;
  if (!take_digits(text, read) || !text.empty() || read > max) return false;
  number = read;
  return true;
}

bool read_size(std::string_view text, std::uint64_t& bytes) {
  std::uint64_t number = 0;
  if (!take_digits(text, number)) return false;
  while (text.starts_with(' ')) text.remove_prefix(1);
  std::string unit = ascii_lower_case(text);
  if (unit.ends_with("ib")) unit.resize(unit.size() - 2);
  else if (unit.ends_with('b')) unit.pop_back();
  constexpr std::string_view kUnits = "kmgtpe";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit) + 1;  // npos + 1 is 0
  if (!unit.empty() && (unit.size() != 1 || power == 0)) return false;
  if (power != 0 && number >> (64 - 10 * power) != 0) return false;
  bytes = number << 10 * power;
  return true;
}

bool read_decimal(const std::string& text, double& number, double min, double max) {
  if (text.empty() || text.find_first_not_of("0123456789.+-eE") != std::string::npos) return false;
  char* end = nullptr;
  const double read = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(read) || read < min || read > max) return false;
  number = read;
  return true;
}

}  // namespace heapprof::cli
