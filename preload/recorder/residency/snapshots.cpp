#include "preload/recorder/residency/snapshots.h"

#include <cerrno>

#include "common/note_kind.h"
#include "preload/base/text.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/residency/resident_memory.h"
#include "preload/recorder/residency/snapshot.h"
#include "preload/recorder/residency/snapshot_budget.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_file.h"

namespace heapprof::recorder {

namespace {

constexpr const char* kMapsPath = "/proc/self/maps";
constexpr const char* kPagemapPath = "/proc/self/pagemap";

/// While a program starts, its memory changes by 10 % at each sample. One that ends sooner has a snapshot at its end.
constexpr std::uint64_t kFirstDueNs = 20'000'000;

constinit sys::ProcFile g_maps;
constinit sys::ProcFile g_pagemap;
constinit int g_owner = 0;  ///< kernel id of the thread that takes a snapshot; 0: none
// The following belong to the owner.
constinit Snapshot g_snapshot;
constinit SnapshotBudget g_budget;
constinit bool g_refused = false;  ///< the system has refused snapshots, and the trace has a note about it

/// Of the latest snapshot; read by every thread.
constinit std::uint64_t g_snapshot_resident_bytes = 0;

/// Makes the thread the owner. A thread that calls this is not taking a snapshot itself, because only a signal
/// handler could interrupt that, and its state has a depth. So if it is the owner already, it has left by longjmp.
bool acquire(const ThreadState& thread) noexcept {
  const int self = thread.owner();
  int owner = __atomic_load_n(&g_owner, __ATOMIC_RELAXED);
  if (owner != 0 && owner != self && sys::thread_exists(owner)) return false;
  const bool abandoned = owner != 0;
  if (!__atomic_compare_exchange_n(&g_owner, &owner, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return false;
  if (abandoned) g_snapshot.drop();
  return true;
}

void release() noexcept { __atomic_store_n(&g_owner, 0, __ATOMIC_RELEASE); }

const char* reason_of(int error) noexcept {
  switch (-error) {
    case EACCES: return "Permission denied";
    case EPERM: return "Operation not permitted";
    case ENOENT: return "No such file or directory";
    case EMFILE: return "Too many open files";
    case ENOSYS: return "Function not implemented";
    case ENOMEM: return "Cannot allocate memory";
    default: return nullptr;
  }
}

/// Adds a note to the trace, once; no more snapshots are taken.
void refuse(ThreadState& thread, const char* path, const char* what, int error) noexcept {
  if (g_refused || sys::forbidden() || in_forked_child()) return;
  g_refused = true;
  char text[160];
  Text note(text);
  note.add("resident pages are not recorded: ").add(path).add(what);
  if (const char* const reason = reason_of(error)) note.add(reason).add(')');
  else note.add("error ").number(static_cast<std::uint64_t>(-error)).add(')');
  thread.stream.append_text(TextKind::kNote, static_cast<std::uint64_t>(NoteKind::kInformation), 0, text,
                            note.length());
}

/// Opens a file again if the host has closed it. Returns false if it cannot be opened.
bool open_again(ThreadState& thread, sys::ProcFile& file, const char* path) noexcept {
  if (file.descriptor() >= 0) return true;
  const int error = file.open(path);
  if (error != 0) refuse(thread, path, " could not be opened (", error);
  return error == 0;
}

/// Begins a snapshot, unless `reason` is null, and continues it for at most `slice_ns`. Precondition: the thread is
/// the owner.
void run(ThreadState& thread, const SnapshotReason* reason, std::uint64_t slice_ns) noexcept {
  if (g_refused) return;
  // The host has closed the files in the middle of a snapshot, which continues at a position in one of them.
  if (reason == nullptr && (g_maps.descriptor() < 0 || g_pagemap.descriptor() < 0)) return g_snapshot.drop();
  const std::uint64_t begin_ns = sys::clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const Ticks until = g_clock.now() + g_clock.ticks_in(slice_ns);
  if (reason != nullptr) {
    if (!open_again(thread, g_maps, kMapsPath) || !open_again(thread, g_pagemap, kPagemapPath)) return;
    const ResidentMemory memory = resident_memory();
    if (!g_snapshot.begin(thread.stream, *reason, {&g_maps, &g_pagemap, memory}))
      return refuse(thread, kMapsPath, " could not be read (", g_snapshot.error());
    __atomic_store_n(&g_snapshot_resident_bytes, memory.resident_bytes, __ATOMIC_RELAXED);
  }
  switch (g_snapshot.run(thread.stream, until)) {
    case Snapshot::Progress::kFinished: g_budget.finished(g_snapshot.resident_bytes(), g_snapshot.spent_ns()); break;
    case Snapshot::Progress::kFailed:
      // The host has closed the files: the next snapshot opens them again.
      if (g_snapshot.error() == -EBADF) break;
      refuse(thread, g_snapshot.error() == -EIO ? kMapsPath : kPagemapPath, " could not be read (",
             g_snapshot.error());
      break;
    default: break;
  }
  const std::uint64_t end_ns = sys::clock_ns(CLOCK_THREAD_CPUTIME_ID);
  if (end_ns > begin_ns) g_budget.spend(end_ns - begin_ns);
}

/// Not in a child that shares our memory: its descriptors are others under the same numbers.
bool may_take(const ThreadState& thread) noexcept {
  return g_settings.snapshots && thread.depth == 0 && !sys::forbidden() && !in_forked_child() &&
         !shares_memory_with_parent();
}

std::uint64_t elapsed_ns() noexcept { return g_clock.monotonic_ns_at(g_clock.now()) - g_clock.origin_monotonic_ns(); }

/// How long a snapshot of a process with this many resident bytes may take now, in ns; 0: none may be taken.
std::uint64_t slice_in_budget(std::uint64_t resident_bytes) noexcept {
  return g_budget.slice_ns(elapsed_ns(), resident_bytes);
}

/// Takes a snapshot in at most `slice_ns`. One at the end of the program is not continued. Returns false if another
/// thread takes one.
bool take(ThreadState& thread, SnapshotReason reason, std::uint64_t slice_ns) noexcept {
  if (!acquire(thread)) return false;
  run(thread, &reason, slice_ns);
  if (reason == SnapshotReason::kExit) g_snapshot.end_incomplete(thread.stream);
  release();
  return true;
}

/// Whether `now` is 10 % above or below `before`.
constexpr bool differs(std::uint64_t now, std::uint64_t before) noexcept {
  return now >= before + before / 10 || now + before / 10 <= before;
}

}  // namespace

void start_snapshots() noexcept {
  g_owner = 0;
  g_snapshot.restart();
  g_budget = {};
  g_refused = false;
  g_snapshot_resident_bytes = 0;
  if (!g_settings.snapshots) return;
  // A failure is reported when the first snapshot is due: then there is a stream for the note.
  g_maps.open(kMapsPath);
  g_pagemap.open(kPagemapPath);
}

void close_snapshots() noexcept {
  g_maps.close();
  g_pagemap.close();
}

void snapshot_if_due(ThreadState& thread, std::uint64_t resident_bytes) noexcept {
  if (resident_bytes == 0 || elapsed_ns() < kFirstDueNs || !may_take(thread)) return;
  const std::uint64_t before = __atomic_load_n(&g_snapshot_resident_bytes, __ATOMIC_RELAXED);
  if (!g_snapshot.unfinished() && !differs(resident_bytes, before)) return;
  const std::uint64_t slice_ns = slice_in_budget(resident_bytes);
  if (slice_ns == 0 || !acquire(thread)) return;
  const SnapshotReason reason = SnapshotReason::kResidency;
  run(thread, g_snapshot.unfinished() ? nullptr : &reason, slice_ns);
  release();
}

bool take_snapshot(ThreadState& thread, SnapshotReason reason) noexcept {
  if (!g_settings.snapshots || sys::forbidden()) return true;  // no thread will ever take one
  return may_take(thread) && take(thread, reason, SnapshotBudget::kMaxSliceNs);
}

void take_snapshot_within_budget(ThreadState& thread, SnapshotReason reason) noexcept {
  if (!may_take(thread)) return;
  const std::uint64_t slice_ns = slice_in_budget(resident_memory().resident_bytes);
  if (slice_ns == 0) return;
  // What a last snapshot does not read now is never read: it may take longer if other processes use the processor.
  take(thread, reason, reason == SnapshotReason::kExit ? SnapshotBudget::kMaxSliceNs : slice_ns);
}

void recover_abandoned_snapshot(const ThreadState& thread) noexcept {
  if (thread.depth == 0 && __atomic_load_n(&g_owner, __ATOMIC_RELAXED) == thread.owner()) {
    g_snapshot.drop();
    release();
  }
}

}  // namespace heapprof::recorder
