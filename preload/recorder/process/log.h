// Messages of the recorder: one line each, "heapprof: ...", written to HEAPPROF_LOG_FILE by one raw write, or to
// standard error if there is no such file or it cannot be opened. HEAPPROF_LOG sets the level.
#pragma once

#include "preload/recorder/process/settings.h"

namespace heapprof::recorder {

/// Remembers which file standard error is, or that it is closed. If it is another file later, messages are dropped,
/// so that they are not written into that file.
void remember_standard_error() noexcept;

/// Writes `message` and then `detail` (a path, for example) as one line; the line end is added. May be called from
/// any thread and from signal handlers. Drops the message if the write would block (a full pipe).
void log(LogLevel level, const char* message, const char* detail = "") noexcept;

}  // namespace heapprof::recorder
