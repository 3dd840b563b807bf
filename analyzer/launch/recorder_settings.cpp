#include "analyzer/launch/recorder_settings.h"

#include <cstdint>
#include <cstdlib>

#include "common/settings_grammar.h"

namespace heapprof::launch {

namespace {

using Kind = RecorderSetting::Kind;

constexpr std::size_t kMaxOutputBytes = 4000;
constexpr std::size_t kMaxPathBytes = 1000;

constexpr RecorderSetting kSettings[] = {
    {"--output", "HEAPPROF_OUTPUT", Kind::kOutput, "FILE",
     "Write the trace to FILE: %e is the program, %p its pid, %t the start time, %h the host, %% a percent sign. "
     "With "
     "--output DIRECTORY/, the traces of all processes are in DIRECTORY",
     kDefaultOutput},
    {"--max-file-size", "HEAPPROF_MAX_FILE_SIZE", Kind::kSize, "SIZE",
     "Stop recording when the trace has SIZE bytes, such as 500M or 2G", "none"},
    {"--label", "HEAPPROF_LABELS", Kind::kLabels, "KEY=VALUE",
     "Store a label in the trace, such as env=production (repeatable); 'info' and 'export rows' show labels", "none"},
    {"--max-depth", "HEAPPROF_MAX_DEPTH", Kind::kDepth, "N", "Record at most N frames of each stack", "1024"},
    {"--children", "HEAPPROF_CHILDREN", Kind::kFlag, "[on|off]", "Record child processes too, each into its own file",
     "off"},
    {"--paused", "HEAPPROF_PAUSED", Kind::kFlag, "[on|off]", "Start paused; 'heapprof control' resumes", "off"},
    {"--mmap", "HEAPPROF_MMAP", Kind::kSwitch, "on|off", "Record mmap, munmap, mremap and brk", "on"},
    {"--snapshots", "HEAPPROF_SNAPSHOTS", Kind::kSwitch, "on|off",
     "Record which pages are resident: at marks, on request, at the end, and when resident memory changes by 10 %",
     "on"},
    {"--free-stacks", "HEAPPROF_FREE_STACKS", Kind::kFlag, "[on|off]", "Record the stack of every free too", "off"},
    {"--embedded-allocators", "HEAPPROF_EMBEDDED_ALLOCATORS", Kind::kSwitch, "on|off",
     "Record allocators that are linked into the program, by patching their functions", "on"},
    {"--own-allocators", "HEAPPROF_OWN_ALLOCATORS", Kind::kSwitch, "on|off", "", "on", true},
    {"--python", "HEAPPROF_PYTHON", Kind::kFlag, "[on|off]",
     "Record the lines of Python, too, in stacks of CPython 3.8 to 3.15", "on"},
    {"--shadow-stack", "HEAPPROF_SHADOW_STACK", Kind::kSwitch, "on|off",
     "Reuse the frames of the previous stack of a thread; off: unwind every stack completely", "on"},
    {"--log", "HEAPPROF_LOG", Kind::kLevel, "off|error|warn|info|debug",
     "Print messages of the recorder up to this level", "warn"},
    {"--log-file", "HEAPPROF_LOG_FILE", Kind::kPath, "FILE", "Append the messages of the recorder to FILE",
     "standard error"},
};

}  // namespace

std::span<const RecorderSetting> recorder_settings() { return kSettings; }

bool is_switch_value(const std::string& word) {
  bool on = false;
  return parse_switch(word.c_str(), on);
}

bool is_valid(const RecorderSetting& setting, const std::string& value) {
  std::uint64_t number = 0;
  LogLevel level{};
  switch (setting.kind) {
    case Kind::kOutput: return is_path_setting(value.c_str(), kMaxOutputBytes);
    case Kind::kPath: return is_path_setting(value.c_str(), kMaxPathBytes);
    case Kind::kLevel: return parse_log_level(value.c_str(), level);
    case Kind::kSwitch:
    case Kind::kFlag: return is_switch_value(value);
    case Kind::kDepth: return parse_in_range(value.c_str(), kMinSettingDepth, kMaxSettingDepth, number);
    case Kind::kSize: return parse_size(value.c_str(), number);
    case Kind::kLabels: return is_labels_setting(value.c_str());
  }
  return false;
}

std::string expected_value(const RecorderSetting& setting) {
  switch (setting.kind) {
    case Kind::kOutput: return "a path of at most " + std::to_string(kMaxOutputBytes) + " characters";
    case Kind::kPath: return "a path of at most " + std::to_string(kMaxPathBytes) + " characters";
    case Kind::kLevel: return kExpectedLogLevel;
    case Kind::kSwitch:
    case Kind::kFlag: return kExpectedSwitch;
    case Kind::kDepth: return kExpectedDepth;
    case Kind::kSize: return kExpectedSize;
    case Kind::kLabels: return kExpectedLabels;
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
