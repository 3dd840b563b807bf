// What units.cpp, axis.cpp and byte_column.cpp share: the units of sizes and times, and numbers as text.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace heapprof::render {

/// Each is 1024 times the one before it.
inline constexpr const char* kByteUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

// In nanoseconds.
inline constexpr std::uint64_t kMicrosecond = 1'000;
inline constexpr std::uint64_t kMillisecond = 1'000'000;
inline constexpr std::uint64_t kSecond = 1'000'000'000;
inline constexpr std::uint64_t kMinute = 60 * kSecond;
inline constexpr std::uint64_t kHour = 60 * kMinute;
inline constexpr std::uint64_t kDay = 24 * kHour;

/// snprintf into a string of at most 63 bytes.
template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

}  // namespace heapprof::render
