// Runs commands in this process, as heapprof's main() does, and returns their output.
//
// This header includes neither the option parser nor the JSON library: each costs seconds of compile time in every
// file that includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace heapprof::test {

inline constexpr std::uint64_t kNoNumber = ~std::uint64_t{0};

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;

  /// The value at a JSON pointer ("/heap/peak_bytes") of `out`; see json_at().
  std::string at(const std::string& pointer) const;
  /// The same for a non-negative integer; kNoNumber if there is none.
  std::uint64_t number(const std::string& pointer) const;
  /// The number of elements of the array at a JSON pointer of `out`; 0 if there is no array.
  std::size_t count(const std::string& pointer) const;
  /// Whether `out` has a line with all of these texts in this order.
  bool has_line(const std::vector<std::string>& texts) const;
};

/// Runs `heapprof ARGUMENT...`. Standard input stays as it is; no cache of the user is read or written.
Outcome run(const std::vector<std::string>& arguments);

/// A string without its quotes, anything else as compact JSON; "(absent)" or "(no JSON)" where there is no value.
std::string json_at(const std::string& json, const std::string& pointer);

std::string read_file(const std::string& path);

}  // namespace heapprof::test
