// What the recorder says: one line a message, "heapprof: ...", to HEAPPROF_LOG_FILE or standard error,
// by one raw write. Nothing is said below HEAPPROF_LOG.
#pragma once

#include "preload/recorder/process/settings.h"

namespace heapprof::recorder {

/// Remembers what standard error is now. If a host later has another file there, messages are dropped
/// rather than written into that.
void remember_standard_error() noexcept;

/// Says `message` and `detail` (a path, say) as one line, which both come without the end of.
void log(LogLevel level, const char* message, const char* detail = "") noexcept;

}  // namespace heapprof::recorder
