// Events other than allocations and mappings: restrictions on system calls, exit, pause and resume, marks, notes.
#include "preload/recorder/recorder.h"

#include "preload/base/text.h"
#include "preload/python/left_out.h"
#include "preload/recorder/control/control.h"
#include "preload/recorder/control/sampler.h"
#include "preload/recorder/event_path.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/process/log.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/residency/snapshots.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

void restrict_system_calls(bool no_cycle_clock) noexcept {
  if (ThreadState* thread = enter()) {
    thread->stream.map_ahead();
    // Logged now, because a forked child cannot log that it is not recorded.
    log(LogLevel::kInfo,
        "the program forbids system calls (seccomp) or the cycle clock: from here on no samples are "
        "taken, and new threads and forked children are not recorded");
    leave(*thread);
  }
  // take_sample() relies on this order: a thread that has read the frozen clock then finds that system calls are
  // forbidden, or that the sampler was stopped.
  __atomic_fetch_add(&sys::g_forbidden, 1, __ATOMIC_SEQ_CST);
  if (no_cycle_clock) g_clock.freeze();
  stop_sampler();
}

void restriction_refused(bool no_cycle_clock) noexcept {
  if (no_cycle_clock) g_clock.thaw();
  if (__atomic_sub_fetch(&sys::g_forbidden, 1, __ATOMIC_SEQ_CST) == 0) resume_sampler();
}

namespace {

/// Before the process ends, or executes another program: saves events that are in private memory, where the file
/// system does not promise that mapped pages can be rewritten. If there is no space for them, the recording stops.
void save_last_events(ThreadState& thread, Ending ending) noexcept {
  if (g_trace.rewrites_in_place()) return;
  const bool executes = ending == Ending::kExec;
  PrivateBlocks left = save_private_blocks(thread, executes);
  // The kernel may still be ending a thread that the program has joined. The wait takes some 5 ms at most.
  constexpr int kMaxSteps = 20;
  for (int i = 0; i < kMaxSteps && left.of_unfinished_threads && left.failure == nullptr; ++i) {
    const timespec step{0, 200'000};
    sys::call(SYS_nanosleep, sys::word(&step), 0);
    left = save_private_blocks(thread, executes);
  }
  if (left.failure != nullptr) return stop(left.failure);
  // Once: an exec may fail, and the program end later.
  static constinit std::uint32_t noted_in = 0;  // a process generation
  if (!left.of_unfinished_threads ||
      __atomic_exchange_n(&noted_in, g_process_generation, __ATOMIC_RELAXED) == g_process_generation)
    return;
  static constexpr char kNote[] =
      "threads still ran when the program ended: on this file system, their last events may be missing";
  thread.stream.append_text(TextKind::kNote, static_cast<std::uint64_t>(NoteKind::kNotRecorded), 0, kNote,
                            sizeof kNote - 1);
  if (executes) thread.stream.save_private_block(false);
}

}  // namespace

void exit_reached() noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  // A vfork child that calls exit() instead of _exit(), and so runs its parent's exit handlers. The parent continues.
  if (shares_memory_with_parent() && !sys::forbidden()) return leave(*thread);
  take_sample(*thread);
  take_snapshot(*thread, SnapshotReason::kExit);
  python::write_left_out(thread->stream);
  save_last_events(*thread, Ending::kExit);
  if (state() == State::kOn) {
    FileHeader& header = *g_trace.header();
    write_end_time(header);
    header.end_status = kEndStatusUnknown;
    mark_end(header, EndKind::kExit);
  }
  leave(*thread);
}

bool has_own_trace() noexcept { return state() == State::kOn && !in_forked_child() && !shares_memory_with_parent(); }

void about_to_end(Ending ending) noexcept {
  if (!has_own_trace()) return;
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  take_sample(*thread);
  take_snapshot_within_budget(*thread, SnapshotReason::kExit);
  save_last_events(*thread, ending);
  leave(*thread);
}

void pause() noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  set_paused(*thread, true);
  leave(*thread);
}

void resume() noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  set_paused(*thread, false);
  leave(*thread);
}

void mark(const char* text) noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  commit_mark(*thread, text, text_length(text));
  leave(*thread);
}

void note(const char* text, NoteKind kind) noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  thread->stream.append_text(TextKind::kNote, static_cast<std::uint64_t>(kind), 0, text, text_length(text));
  leave(*thread);
}

bool is_recording() noexcept {
  return state() == State::kOn && !paused() && (!in_forked_child() || (g_settings.children && !sys::forbidden()));
}

}  // namespace heapprof::recorder
