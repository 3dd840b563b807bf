// Messages of the recorder: one line each, "heapprof: ...", written to HEAPPROF_LOG_FILE or standard error by one raw
// write. HEAPPROF_LOG sets the level.
#pragma once

#include "preload/recorder/process/settings.h"

namespace heapprof::recorder {

/// Remembers which file standard error is. If the host later has another file there, messages are dropped rather than
/// written into that file.
void remember_standard_error() noexcept;

/// Writes `message` and then `detail` (a path, for example) as one line; the line end is added. Any thread, also in
/// signal handlers. Drops the message rather than wait for a full pipe.
void log(LogLevel level, const char* message, const char* detail = "") noexcept;

}  // namespace heapprof::recorder
