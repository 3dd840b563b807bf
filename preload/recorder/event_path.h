// The event path: hook -> enter() -> capture() -> event_time() -> append() -> leave(). Shared by heap_events.cpp,
// mapping_events.cpp and recorder.cpp; hooks include recorder.h instead.
//
// Events come in runs (Stream::begin_run), during which no periodic work is due. Within a run, an allocation whose
// stack is cached and a free take the fast path (heap_events.cpp), which calls no function. One comparison, of the
// fast-path guard (process/fork_watch.h), ensures that this is not a forked child and that recording is on and not
// paused. For everything else there is the slow path.
//
// All events of a run have one time, so they need not read the clock: in a process with one thread, and for the
// holder of the clock lease (clock/clock_lease.h).
#pragma once

#include "preload/recorder/clock/clock.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/recorder.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/recorder/trace/recording.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::recorder {

/// Enters the calling thread's state in whatever condition it is: starts the recorder, attaches the thread, recovers
/// an abandoned state, or takes a nested one. Null: the event is not recorded.
ThreadState* enter_slow(StackPointer stack_pointer) noexcept;

/// Enters the thread's state where nothing is unusual: recording, not paused, nobody inside. Null: enter_slow() has
/// to decide. `busy` is set before the guard is read, so that a child, forked by a signal handler in between, finds
/// that somebody is inside.
[[gnu::always_inline]] inline ThreadState* enter_fast() noexcept {
  ThreadState* thread = t_local.state;
  if (thread == nullptr || thread->busy != StackPointer::kNone) [[unlikely]]
    return nullptr;
  thread->busy = arch::stack_pointer();
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (__atomic_load_n(&g_fork_page->fast_path_guard, __ATOMIC_RELAXED) == thread->generation) [[likely]]
    return thread;
  thread->busy = StackPointer::kNone;
  return nullptr;
}

/// Takes the thread's state for one event, until leave(). Null: the event is not recorded.
inline ThreadState* enter() noexcept {
  ThreadState* const thread = enter_fast();
  return thread != nullptr ? thread : enter_slow(arch::stack_pointer());
}

[[gnu::always_inline]] inline void leave(ThreadState& thread) noexcept {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread.busy = StackPointer::kNone;
}

/// An event came from the loader (unwind::is_loader): objects may have been loaded or unloaded.
void loader_event() noexcept;

/// The call stack that begins with `entry`, as a node.
inline std::uint32_t capture(ThreadState& thread, const EntryRegisters& entry) noexcept {
  if (unwind::is_loader(entry.pc)) [[unlikely]]
    loader_event();
  if (thread.depth != 0) [[unlikely]]
    return raw(unwind::capture_nested(entry, thread.definitions));
  return raw(thread.unwinder.capture(entry, thread.definitions));
}

inline bool is_single_threaded() noexcept { return *__atomic_load_n(&g_single_threaded, __ATOMIC_RELAXED) != 0; }

/// Once libc has reported a second thread, the process counts as multi-threaded for good: libc may report later that
/// only one is left.
inline void note_multi_threaded() noexcept {
  if (__atomic_load_n(&g_single_threaded, __ATOMIC_RELAXED) != &kMultiThreaded) [[unlikely]]
    set_multi_threaded();
}

/// The time of an event that begins a run, and the periodic work that is due.
Ticks begin_single_threaded_run(ThreadState& thread) noexcept;
Ticks begin_multi_threaded_run(ThreadState& thread) noexcept;

/// Does the periodic work that is due before an event that was to have the time `now`; returns the time that it has.
Ticks time_after_periodic_work(ThreadState& thread, Ticks now) noexcept;

/// The time of the thread's next event.
inline Ticks event_time(ThreadState& thread) noexcept {
  if (is_single_threaded())
    return thread.stream.in_run() ? thread.stream.last_time() : begin_single_threaded_run(thread);
  note_multi_threaded();
  if (!thread.stream.in_run()) return begin_multi_threaded_run(thread);
  if (holds_clock_lease(thread)) return thread.stream.last_time();
  const Ticks now = now_revoking_lease(thread);
  return now >= thread.next_check ? time_after_periodic_work(thread, now) : now;
}

/// Commits an event; stops the recording when that fails.
inline void append(ThreadState& thread, Op op, Ticks time, const void* address, std::uint64_t size,
                   std::uint32_t node, std::uint32_t aux = 0) noexcept {
  if (!thread.stream.append(op, time, reinterpret_cast<std::uint64_t>(address), size, node, aux)) [[unlikely]]
    stop(thread.stream.failure());
}

}  // namespace heapprof::recorder
