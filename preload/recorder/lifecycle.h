// The life of the recorder: start, fork, exec. The end is in trace/recording.h.
//
// What is recorded: the process that was started with the library, and what it executes, in a new file; its children
// only with HEAPPROF_CHILDREN. HEAPPROF_SESSION in the environment tells these apart (process/session.h).
// docs/concepts/recorder.md describes it.
#pragma once

#include "preload/recorder/trace/recording.h"

namespace heapprof::recorder {

/// Starts recording unless it was started before or libc is not ready. Called by events that find State::kNew: one
/// thread starts the recorder, the events of other threads meanwhile are not recorded.
void start() noexcept;

/// Prepares the environment for what the process will execute. Called once by the library's constructor, before main
/// and while there is one thread.
void prepare_environment() noexcept;

/// Called by the first event in a forked child: ends recording in the child, or begins a trace for it.
void forked() noexcept;

}  // namespace heapprof::recorder
