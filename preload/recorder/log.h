// What the recorder says: one line a message, "heapprof: ...", to HEAPPROF_LOG_FILE or standard error,
// by one raw write. Nothing is said below HEAPPROF_LOG, and nothing where system calls are forbidden.
#pragma once

#include "preload/recorder/settings.h"

namespace heapprof::recorder {

/// Remembers what standard error is now. If a host later has another file there, messages are dropped
/// rather than written into that.
void remember_standard_error() noexcept;

/// `message` is one line without its end.
void log(LogLevel level, const char* message) noexcept;

/// No message from here on: the host has entered seccomp.
void silence_log() noexcept;

}  // namespace heapprof::recorder
