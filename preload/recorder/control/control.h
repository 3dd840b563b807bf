// Pause, resume, mark and snapshots, requested by the program itself (heapprof.h), or by `heapprof control` through
// the mailbox in the trace's header. The mailbox is read with each timeline sample; its contents are not trusted.
//
// Every `thread` is the state of the calling thread, which has entered it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/recorder/thread/thread_state.h"

namespace heapprof::recorder {

/// Pauses a recording from its start on. Call this while no events are recorded; before any other event, the caller
/// commits Op::kPause with this time.
void begin_paused(Ticks time) noexcept;

/// Pauses or resumes. A change is committed to the thread's stream and written to the header.
void set_paused(ThreadState& thread, bool paused) noexcept;

/// Commits a mark with the first 256 bytes of `text`, and takes a snapshot if the budget of snapshots allows it.
void commit_mark(ThreadState& thread, const char* text, std::size_t bytes) noexcept;

/// Call this before a new trace, in which control requests are numbered from 1 again.
void reset_mailbox() noexcept;

/// Handles the control request in the mailbox, if there is a new one, and acknowledges it.
void handle_control_request(ThreadState& thread) noexcept;

}  // namespace heapprof::recorder
