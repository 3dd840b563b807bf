// How recording starts, and what happens at fork and exec. The end of a recording is in trace/recording.h.
//
// What is recorded: the process that was started with the library, and every program that it executes, each in its
// own file; its children only with HEAPPROF_CHILDREN. HEAPPROF_SESSION in the environment distinguishes these
// processes (process/session.h). docs/concepts/recorder.md describes this.
#pragma once

#include "preload/recorder/trace/recording.h"

namespace heapprof::recorder {

/// Starts recording unless it was started before or libc is not ready. Called by events in State::kNew. One thread
/// starts the recorder; events of other threads in the meantime are not recorded.
void start() noexcept;

/// Prepares the environment for the programs that the process will execute. Called once by the library's constructor,
/// before main and while there is one thread.
void prepare_environment() noexcept;

/// Called by the first event in a forked child: ends recording in the child, or begins a trace for it.
void forked() noexcept;

}  // namespace heapprof::recorder
