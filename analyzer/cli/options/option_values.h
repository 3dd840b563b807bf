// The grammars of option values: whole numbers, sizes, decimal numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heapprof::cli {

/// The words that an option takes, each with the value that it selects, in the order of the help.
template <typename Value>
using WordsFor = std::vector<std::pair<std::string, Value>>;

/// `text` with the letters A to Z as a to z.
std::string ascii_lower_case(std::string_view text);

/// Reads a whole number of decimal digits, at most `max`: no sign, no 0x, and 010 is ten. False: `text` is not valid.
bool read_whole_number(std::string_view text, std::uint64_t& number,
                       std::uint64_t max = std::numeric_limits<std::uint64_t>::max());

/// Reads a size in bytes: a whole number, alone or with a unit that counts in 1024s (4K, 200M, 2G, also 200MB or
/// 200MiB). False: `text` is not valid, or the size exceeds 64 bits.
bool read_size(std::string_view text, std::uint64_t& bytes);

/// Reads a finite decimal number from `min` to `max`. False: `text` is not valid.
bool read_decimal(const std::string& text, double& number, double min, double max);

}  // namespace heapprof::cli
