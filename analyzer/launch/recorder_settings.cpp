#include "analyzer/launch/recorder_settings.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

namespace heapprof::launch {

namespace {

using Kind = RecorderSetting::Kind;

constexpr std::size_t kMaxOutputBytes = 4000;
constexpr std::size_t kMaxPathBytes = 1000;
constexpr std::uint64_t kMaxDepth = 65536;

constexpr RecorderSetting kSettings[] = {
    {"--output", "HEAPPROF_OUTPUT", Kind::kOutput, "FILE",
     "Write the trace to FILE: %e is the program, %p its pid, %t the start time, %h the host, %% a percent sign",
     "heapprof.%e.%p.hprof"},
    {"--max-file-size", "HEAPPROF_MAX_FILE_SIZE", Kind::kSize, "SIZE",
     "Stop recording when the trace has SIZE bytes, such as 500M or 2G", "none"},
    {"--max-depth", "HEAPPROF_MAX_DEPTH", Kind::kDepth, "N", "Record at most N frames of each stack", "1024"},
    {"--children", "HEAPPROF_CHILDREN", Kind::kFlag, "[on|off]",
     "Record child processes too, each into its own file", "off"},
    {"--paused", "HEAPPROF_PAUSED", Kind::kFlag, "[on|off]", "Start paused; 'heapprof control' resumes", "off"},
    {"--mmap", "HEAPPROF_MMAP", Kind::kSwitch, "on|off", "Record mmap, munmap, mremap and brk", "on"},
    {"--free-stacks", "HEAPPROF_FREE_STACKS", Kind::kFlag, "[on|off]", "Record the stack of every free too", "off"},
    {"--embedded-allocators", "HEAPPROF_EMBEDDED_ALLOCATORS", Kind::kSwitch, "on|off",
     "Record allocators that are linked into the program, by patching their functions", "on"},
    {"--own-allocators", "HEAPPROF_OWN_ALLOCATORS", Kind::kSwitch, "on|off", "", "on", true},
    {"--shadow-stack", "HEAPPROF_SHADOW_STACK", Kind::kSwitch, "on|off",
     "Reuse the frames of the previous stack of a thread; off: unwind every stack completely", "on"},
    {"--log", "HEAPPROF_LOG", Kind::kLevel, "off|error|warn|info|debug",
     "Print messages of the recorder up to this level", "warn"},
    {"--log-file", "HEAPPROF_LOG_FILE", Kind::kPath, "FILE", "Append the messages of the recorder to FILE",
     "standard error"},
};

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// Removes the decimal digits at the start of `text`. False: there are none, or the number exceeds 64 bits.
bool take_number(std::string_view& text, std::uint64_t& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  number = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    if (__builtin_mul_overflow(number, std::uint64_t{10}, &number)) return false;
    if (__builtin_add_overflow(number, static_cast<std::uint64_t>(text.front() - '0'), &number)) return false;
  }
  return true;
}

bool is_size(std::string_view text) {
  std::uint64_t number = 0;
  if (!take_number(text, number)) return false;
  if (text.empty()) return true;
  const std::size_t suffix = std::string_view("kKmMgGtT").find(text.front());
  if (suffix == std::string_view::npos || text.size() != 1) return false;
  return number >> (64 - 10 * (suffix / 2 + 1)) == 0;
}

}  // namespace

std::span<const RecorderSetting> recorder_settings() { return kSettings; }

bool is_switch_value(std::string_view word) { return is_one_of(word, {"on", "off", "1", "0", "yes", "no"}); }

bool is_valid(const RecorderSetting& setting, std::string_view value) {
  switch (setting.kind) {
    case Kind::kOutput: return !value.empty() && value.size() <= kMaxOutputBytes;
    case Kind::kPath: return !value.empty() && value.size() <= kMaxPathBytes;
    case Kind::kLevel: return is_one_of(value, {"off", "error", "warn", "info", "debug"});
    case Kind::kSwitch:
    case Kind::kFlag: return is_switch_value(value);
    case Kind::kDepth: {
      std::uint64_t depth = 0;
      return take_number(value, depth) && value.empty() && depth >= 1 && depth <= kMaxDepth;
    }
    case Kind::kSize: return is_size(value);
  }
  return false;
}

std::string expected_value(const RecorderSetting& setting) {
  switch (setting.kind) {
    case Kind::kOutput: return "a path of at most " + std::to_string(kMaxOutputBytes) + " characters";
    case Kind::kPath: return "a path of at most " + std::to_string(kMaxPathBytes) + " characters";
    case Kind::kLevel: return "off, error, warn, info or debug";
    case Kind::kSwitch:
    case Kind::kFlag: return "on, off, 1, 0, yes or no";
    case Kind::kDepth: return "a whole number from 1 to " + std::to_string(kMaxDepth);
    case Kind::kSize: return "a size such as 500M or 2G";
  }
  return "";
}

bool check_environment(std::string& error) {
  for (const RecorderSetting& setting : kSettings) {
    const char* const value = std::getenv(setting.variable);
    if (value == nullptr || is_valid(setting, value)) continue;
    error = std::string("invalid value '") + value + "' for the environment variable " + setting.variable +
            "; expected " + expected_value(setting);
    return false;
  }
  return true;
}

}  // namespace heapprof::launch
