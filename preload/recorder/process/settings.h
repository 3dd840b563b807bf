// The variables of README.md, read once when the recorder starts. Under AT_SECURE (a privileged program that whoever
// starts it may not influence) none of them is looked at: the settings come from a file that is root's alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::recorder {

enum class LogLevel : std::uint8_t { kOff, kError, kWarn, kInfo, kDebug };

struct Settings {
  char output[4096] = "heapprof.%e.%p.hprof";  ///< pattern
  LogLevel log = LogLevel::kWarn;
  char log_file[1024] = "";  ///< empty: standard error
  bool shadow_stack = true;
  std::uint32_t max_depth = 1024;
  bool mmap = true;
  bool free_stacks = false;
  bool children = false;
  bool paused = false;
  bool own_allocators = true;
  std::uint64_t max_file_bytes = 0;   ///< 0: no limit
  std::uint32_t block_bytes = 65536;  ///< of a staging block: HEAPPROF_BLOCK_BYTES, for tests

  /// Reads all variables from `environment`. One warning for each value that cannot be read; its default
  /// stays. The log's own settings are read first, so that the warnings go where they should.
  void read(char* const* environment) noexcept;

  /// The settings of a program under AT_SECURE, from kTrustedSettings: lines NAME=VALUE of the same variables, `#`
  /// begins a comment. HEAPPROF_DIRECTORY must be there and says where traces go; HEAPPROF_OUTPUT and
  /// HEAPPROF_LOG_FILE do not count. File and directory must be root's and no link, the file writable by nobody else,
  /// the directory neither unless it is sticky. Null, or why there are no settings.
  const char* read_trusted() noexcept;
  /// The same of a file that holds `text`, which is cut into pieces.
  const char* read_trusted_text(char* text) noexcept;

  /// "NAME=value\n" for every setting in force: the header's echo. Returns the length.
  std::size_t echo(char* buffer, std::size_t size) const noexcept;
};

constexpr const char* kTrustedSettings = "/etc/heapprof.conf";

/// The settings in force. Constant after the recorder has started.
extern Settings g_settings;

/// The value of `name` in `environment`, or null.
const char* environment_value(char* const* environment, const char* name) noexcept;

}  // namespace heapprof::recorder
