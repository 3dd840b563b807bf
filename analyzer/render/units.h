// Figures as text: sizes in binary units, counts with separators, shares, times.
//
// Sizes and times have three significant digits, so that columns stay narrow and comparable: 1.50 KiB, 15.0 KiB,
// 150 KiB.
#pragma once

#include <cstdint>
#include <string>

namespace heapprof::render {

/// What a value is.
enum class Unit { kBytes, kCount };

std::string human_bytes(std::uint64_t bytes);                  ///< "512 B", "1.50 KiB", "12.3 MiB"
std::string exact_number(std::uint64_t value);                 ///< "12,897,411"
std::string block_count(std::uint64_t count);                  ///< "1 block", "12,897,411 blocks"
std::string human_value(std::uint64_t value, Unit);            ///< human_bytes, or exact_number
std::string percent(std::uint64_t part, std::uint64_t total);  ///< "12.3%"; "0%" of a total of 0
std::string human_time(std::uint64_t ns);                      ///< "350 µs", "1.25 s", "2 min 05 s", "3 h 02 min"

}  // namespace heapprof::render
