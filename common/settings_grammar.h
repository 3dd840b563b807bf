// The values of the HEAPPROF_... variables: one grammar for the recorder (preload/recorder/process/settings.cpp),
// which reads them, and for `heapprof record`, which checks them before it starts a program. Nothing here allocates
// or calls libc. A function that returns false does not change its result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/c_string.h"

namespace heapprof {

enum class LogLevel : std::uint8_t { kOff, kError, kWarn, kInfo, kDebug };
inline constexpr const char* kLogLevelNames[] = {"off", "error", "warn", "info", "debug"};

/// HEAPPROF_OUTPUT, if it is not set.
inline constexpr const char* kDefaultOutput = "heapprof.%e.%p.heapprof";

/// Limits of HEAPPROF_MAX_DEPTH, in frames.
inline constexpr std::uint64_t kMinSettingDepth = 1, kMaxSettingDepth = 65536;

/// Limits of HEAPPROF_LABELS, in bytes: of the whole value, for which the trace's header has room, and of a key.
inline constexpr std::size_t kMaxLabelsBytes = 1024, kMaxLabelKeyBytes = 64;

// Descriptions of the valid values, for error messages ("expected ...").
inline constexpr const char* kExpectedSwitch = "on, off, 1, 0, yes or no";
inline constexpr const char* kExpectedLogLevel = "off, error, warn, info or debug";
inline constexpr const char* kExpectedSize = "a size such as 500M or 2G";
inline constexpr const char* kExpectedDepth = "a number from 1 to 65536";
inline constexpr const char* kExpectedLabels =
    "KEY=VALUE,KEY=VALUE,... of at most 1024 bytes, keys of letters, digits and . _ - /, other characters than ASCII "
    "and commas as %2C";

/// on, off, 1, 0, yes, no.
inline bool parse_switch(const char* value, bool& result) noexcept {
  if (text_equal(value, "1") || text_equal(value, "on") || text_equal(value, "yes")) return result = true, true;
  if (text_equal(value, "0") || text_equal(value, "off") || text_equal(value, "no")) return result = false, true;
  return false;
}

inline bool parse_log_level(const char* value, LogLevel& result) noexcept {
  for (unsigned level = 0; level < sizeof kLogLevelNames / sizeof kLogLevelNames[0]; ++level)
    if (text_equal(value, kLogLevelNames[level])) return result = static_cast<LogLevel>(level), true;
  return false;
}

/// A decimal number of bytes, which may end in k, M, G or T, in upper or lower case (powers of 1024).
inline bool parse_size(const char* value, std::uint64_t& result) noexcept {
  std::uint64_t number;
  if (!parse_number(value, number)) return false;
  unsigned shift = 0;
  switch (*value) {
    case 'k':
    case 'K': shift = 10; break;
    case 'm':
    case 'M': shift = 20; break;
    case 'g':
    case 'G': shift = 30; break;
    case 't':
    case 'T': shift = 40; break;
    case '\0': break;
    default: return false;
  }
  if (shift != 0 && (value[1] != '\0' || number >> (64 - shift) != 0)) return false;
  result = number << shift;
  return true;
}

/// A decimal number from `low` to `high`.
inline bool parse_in_range(const char* value, std::uint64_t low, std::uint64_t high, std::uint64_t& result) noexcept {
  std::uint64_t number;
  if (!parse_number(value, number) || *value != '\0' || number < low || number > high) return false;
  result = number;
  return true;
}

/// A character of a label's key.
constexpr bool is_label_key_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-' || c == '/';
}

/// The value of a hexadecimal digit in either case, or -1.
constexpr int any_hex_digit(char c) noexcept {
  return hex_digit(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
}

/// HEAPPROF_LABELS: nothing, or "key=value,key=value". Values are printable ASCII; of other bytes, commas and percent
/// signs they have "%2C" (the form of OpenTelemetry's OTEL_RESOURCE_ATTRIBUTES).
inline bool is_labels_setting(const char* value) noexcept {
  if (*value == '\0') return true;
  if (text_length(value) > kMaxLabelsBytes) return false;
  for (;; ++value) {
    const char* const key = value;
    while (is_label_key_character(*value)) ++value;
    const auto key_bytes = static_cast<std::size_t>(value - key);
    if (key_bytes == 0 || key_bytes > kMaxLabelKeyBytes || *value != '=') return false;
    for (++value; *value != '\0' && *value != ','; ++value) {
      if (*value < ' ' || *value > '~') return false;
      if (*value == '%' && (any_hex_digit(value[1]) < 0 || any_hex_digit(value[2]) < 0)) return false;
    }
    if (*value == '\0') return true;
  }
}

/// A path that is not empty and has at most `max_bytes` bytes.
inline bool is_path_setting(const char* value, std::size_t max_bytes) noexcept {
  return value[0] != '\0' && text_length(value) <= max_bytes;
}

}  // namespace heapprof
