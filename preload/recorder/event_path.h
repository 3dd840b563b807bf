// The event path: hook -> enter() -> capture() -> event_time() -> append() -> leave(). Shared by heap_events.cpp,
// mapping_events.cpp and recorder.cpp; hooks include recorder.h instead.
//
// Events come in runs (Stream::begin_run), during which no periodic work is due. Within a run, an allocation whose
// stack is cached and a free take the fast path (heap_events.cpp), which calls no function. One comparison, of the
// fast-path guard (process/fork_watch.h), ensures that this is not a forked child and that recording is on and not
// paused. Everything else takes the slow path.
//
// In a process with one thread, and for the holder of the clock lease (clock/clock_lease.h), all events of a run have
// one time, so only the first one reads the clock.
#pragma once

#include "preload/recorder/clock/clock.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/recorder.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/recorder/trace/recording.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::recorder {

/// Enters the calling thread's state when enter_fast() cannot: starts the recorder, attaches the thread, recovers an
/// abandoned state, or takes a nested one. Returns null if the event is not recorded.
ThreadState* enter_slow(StackPointer stack_pointer) noexcept;

/// Enters the thread's state in the usual case: the fast-path guard is open, and the thread is not inside the
/// recorder. Returns null otherwise; then enter_slow() is needed. `busy` is set before the guard is read, so that a
/// child that a signal handler forks in between finds `busy` set.
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

/// Enters the thread's state for one event, until leave(). Returns null if the event is not recorded.
inline ThreadState* enter() noexcept {
  ThreadState* const thread = enter_fast();
  return thread != nullptr ? thread : enter_slow(arch::stack_pointer());
}

[[gnu::always_inline]] inline void leave(ThreadState& thread) noexcept {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread.busy = StackPointer::kNone;
}

/// Call this for an event that comes from the loader (unwind::is_loader): objects may have been loaded or unloaded.
void loader_event() noexcept;

/// Captures the call stack that begins with `entry` and returns its node.
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

/// Both begin a run, do the periodic work that is due, and return the time of the run's first event.
Ticks begin_single_threaded_run(ThreadState& thread) noexcept;
Ticks begin_multi_threaded_run(ThreadState& thread) noexcept;

/// Does the periodic work that is due before an event with the time `now`. Returns the time of the event, which is
/// later if the work advanced the stream's time.
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
