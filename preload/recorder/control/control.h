// Pause, resume and mark: from the program itself (heapprof.h) and, through the header's mailbox, from
// `heapprof control`. The mailbox is looked at with each timeline sample; nothing in it is trusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/recorder/thread/thread_state.h"

namespace heapprof::recorder {

/// Commits the change, when it is one, to the thread's stream, and shows it in the header.
void set_paused(ThreadState& state, bool paused) noexcept;

/// Commits a mark of at most 256 bytes.
void set_mark(ThreadState& state, const char* text, std::size_t bytes) noexcept;

/// Before a new trace: no letter in it has been read.
void forget_mailbox() noexcept;

/// Does what a new letter in the mailbox asks for.
void read_mailbox(ThreadState& state) noexcept;

}  // namespace heapprof::recorder
