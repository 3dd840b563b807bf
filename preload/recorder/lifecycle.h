// When the recorder records: start, stop, fork, exec, exit.
//
//   kNew -> kStarting -> kOn -> kOff        a forked child: kOn -> kOff, or -> kStarting with HEAPPROF_CHILDREN
//
// Who records. The process that was started with the library does; so does what it executes, in a new
// file; its children only with HEAPPROF_CHILDREN. HEAPPROF_SESSION in the environment tells them apart:
// "PID.START[.FILE-ID:TRACE]" names the process (with its start time, as pids come again) that the session
// belongs to. The launcher sets the first two; the recorder adds it where it is missing, and the trace, so
// that the same process after an exec can mark the old one as ended. The recorder also keeps LD_PRELOAD
// in place for those executed, where the library came by the loader's --preload.
#pragma once

#include <cstdint>

#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/trace/trace_storage.h"

namespace heapprof::recorder {

enum class State : std::uint32_t { kNew, kStarting, kOn, kOff };

extern State g_state;
extern TraceFile g_trace_file;
/// Whether recording is paused, in bit 0. Above it: when that changed last, in ticks; so the times of changes are in
/// the order of the changes.
extern std::uint64_t g_pause;

inline bool paused() noexcept { return (__atomic_load_n(&g_pause, __ATOMIC_RELAXED) & 1) != 0; }

inline State state() noexcept { return __atomic_load_n(&g_state, __ATOMIC_ACQUIRE); }

/// The program's absolute path, by the name it was called by; empty before recording began, or when there is none.
const char* program_path() noexcept;

/// Starts recording if it never started and libc is ready. Called by events that find kNew; one of them
/// does it, the others go on unrecorded meanwhile.
void start() noexcept;

/// Prepares the environment for what the process will execute. Called once, by the library's
/// constructor, before main and while there is one thread.
void prepare_environment() noexcept;

/// Writes the time of the recording's end, by both clocks.
void write_end_time(FileHeader& header) noexcept;

/// Switches recording off for good: `reason` goes to the header and, once, to the log.
void stop(Failure reason) noexcept;

/// The first event in a forked child found the page empty: off, or a trace of its own.
void forked() noexcept;

}  // namespace heapprof::recorder
