// The recorder's settings: each is an environment variable and an option of `heapprof record`. Help, manual pages and
// the reference read this table. The recorder reads the same variables by the same grammar
// (common/settings_grammar.h).
#pragma once

#include <span>
#include <string>

namespace heapprof::launch {

struct RecorderSetting {
  enum class Kind {
    kOutput,  ///< a file name pattern (trace_pattern.h)
    kPath,
    kLevel,  ///< of the log
    kSwitch,
    kFlag,  ///< a switch whose option without a value means on
    kDepth,
    kSize,
    kLabels,  ///< the option adds one, and may be repeated
  };

  const char* option;
  const char* variable;
  Kind kind;
  const char* value;  ///< what the help calls the value: "FILE", "on|off"
  const char* help;
  const char* default_value;  ///< empty: none
  bool deprecated = false;    ///< an old name, which no help shows

  bool is_output() const { return kind == Kind::kOutput; }
};

/// All settings, in the order of the help.
std::span<const RecorderSetting> recorder_settings();

/// Whether the recorder accepts `value` for the setting.
bool is_valid(const RecorderSetting& setting, const std::string& value);

/// What a valid value is: "on, off, 1, 0, yes or no".
std::string expected_value(const RecorderSetting& setting);

/// Whether `word` is a value of a switch: on, off, 1, 0, yes or no.
bool is_switch_value(const std::string& word);

/// Checks the HEAPPROF_... variables in the environment. False: `error` is one line about the first invalid one.
bool check_environment(std::string& error);

}  // namespace heapprof::launch
