// When snapshots of the resident pages are taken (HEAPPROF_SNAPSHOTS): at marks, on request, at the end of the
// program, before it executes another one, and with a sample whose resident memory is 10 % above or below that of the
// last snapshot. All but those on request and at exit() stay within a budget (snapshot_budget.h). One that is not
// finished in its time, at most 50 ms, is continued with a later sample; at the end of the program it stays
// incomplete.
//
// One thread at a time takes a snapshot; another one that would take one meanwhile does not. If the thread dies or
// leaves by longjmp, the snapshot stays incomplete, and the next one begins anew. No function waits, allocates from
// the host or changes errno.
#pragma once

#include <cstdint>

#include "common/residency_codec.h"
#include "preload/recorder/thread/thread_state.h"

namespace heapprof::recorder {

/// Opens the files that snapshots read. Called once per trace.
void start_snapshots() noexcept;
/// In a forked child: closes the files, which describe the parent.
void close_snapshots() noexcept;

/// Call this after a sample with this many resident bytes (0: unknown): takes a snapshot, or continues one, if that
/// is due.
void snapshot_if_due(ThreadState& thread, std::uint64_t resident_bytes) noexcept;

/// Takes a snapshot for another reason. If it takes longer than 50 ms, the rest is read with later samples. Returns
/// false if this thread cannot take one now: another one does, or this is a signal handler that interrupted an event.
bool take_snapshot(ThreadState& thread, SnapshotReason reason) noexcept;
/// The same if the budget permits it. If it takes longer than what is left of the budget, the rest is read later,
/// except at the end of the program.
void take_snapshot_within_budget(ThreadState& thread, SnapshotReason reason) noexcept;

/// Call this when a longjmp has abandoned an event of the thread, which may have been taking a snapshot.
void recover_abandoned_snapshot(const ThreadState& thread) noexcept;

}  // namespace heapprof::recorder
