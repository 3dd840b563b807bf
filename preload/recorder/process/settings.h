// The HEAPPROF_... variables (docs/reference.md), read once when the recorder starts. In a privileged program
// (AT_SECURE) no variable is read, because its caller must not influence it: the settings come from kTrustedSettings,
// a file that only root can write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/settings_grammar.h"

namespace heapprof::recorder {

using heapprof::LogLevel;

struct Settings {
  char output[4096] = "heapprof.%e.%p.heapprof";  ///< pattern of the trace's path
  LogLevel log = LogLevel::kWarn;
  char log_file[1024] = "";               ///< empty: standard error
  char labels[kMaxLabelsBytes + 1] = "";  ///< of the recording, as in the variable
  bool shadow_stack = true;
  std::uint32_t max_depth = 1024;  ///< frames
  bool mmap = true;
  bool free_stacks = false;
  bool children = false;
  bool paused = false;
  bool snapshots = true;
  bool embedded_allocators = true;
  bool python = true;                 ///< whether frames of Python are recorded
  std::uint64_t max_file_bytes = 0;   ///< 0: no limit
  std::uint32_t block_bytes = 65536;  ///< size of a staging block: HEAPPROF_BLOCK_BYTES, for tests

  /// Reads all variables from `environment`. Logs one warning for each invalid value and keeps the default. The
  /// settings of the log are read first, so that the warnings are written to the right file.
  void read(char* const* environment) noexcept;

  /// Reads kTrustedSettings: lines NAME=VALUE of the same variables; a line that begins with `#` is a comment.
  /// HEAPPROF_DIRECTORY is required and names the directory for traces; HEAPPROF_OUTPUT and HEAPPROF_LOG_FILE are
  /// ignored. File and directory must be owned by root and must not be symbolic links. Others must not be able to
  /// write to the file, nor to the directory unless it is sticky. Returns null, or why there are no settings, as a
  /// relative clause about the file ("which cannot be opened ...").
  const char* read_trusted() noexcept;
  /// The same for a file that contains `text`, which is overwritten.
  const char* read_trusted_text(char* text) noexcept;

  /// Writes "NAME=value\n" for every setting except HEAPPROF_LOG_FILE: the copy in the trace's header. Returns the
  /// length.
  std::size_t echo(char* buffer, std::size_t size) const noexcept;
};

constexpr const char* kTrustedSettings = "/etc/heapprof.conf";

/// The settings of this process. Constant after the recorder has started.
extern Settings g_settings;

/// The value of `name` in `environment`, or null.
const char* environment_value(char* const* environment, const char* name) noexcept;

}  // namespace heapprof::recorder
