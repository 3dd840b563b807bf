// The event path: hook -> enter() -> capture() -> time_of_...() -> append() -> leave(). Shared by heap_events.cpp,
// mapping_events.cpp and recorder.cpp; hooks include recorder.h instead.
//
// Events come in runs (Stream::begin_run), during which no periodic work is due. Within a run, an allocation whose
// stack is cached and a free take the fast path (heap_events.cpp), which calls no function. One comparison, of the
// fast-path guard (process/fork_watch.h), ensures that this is not a forked child and that recording is on and not
// paused. Everything else takes the slow path.
//
// In a process with one thread, all events of a run have one time, so only the first one reads the clock. In others,
// that holds for events on pages that the stream owns (clock/page_owners.h).
#pragma once

#include "preload/python/interpreter.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/page_owners.h"
#include "preload/recorder/clock/tick.h"
#include "preload/recorder/process/fast_path_mode.h"
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

/// The parts of a stack with an interpreter, as far as they are known.
struct KnownStack {
  NodeId native = NodeId::kNone;  ///< the C stack, which is cached
  NodeId found = NodeId::kNone;   ///< what MixedStacks::find() has just returned for it
};

/// As capture() with a thread's own state, when there is an interpreter.
std::uint32_t capture_with_python(ThreadState& thread, const EntryRegisters& entry, bool lookup_failed,
                                  KnownStack known = {}) noexcept;

/// Captures the call stack that begins with `entry` and returns its node. `lookup_failed`: find_cached() has just
/// returned kNone for it.
inline std::uint32_t capture(ThreadState& thread, const EntryRegisters& entry, bool lookup_failed = false) noexcept {
  if (unwind::is_loader(entry.pc)) [[unlikely]]
    loader_event();
  if (thread.depth != 0) [[unlikely]]
    return raw(unwind::capture_nested(entry, thread.definitions));
  if (!python::is_on()) [[likely]] {
    const NodeId node = lookup_failed ? thread.unwinder.capture_slow(entry, thread.definitions)
                                      : thread.unwinder.capture(entry, thread.definitions);
    if (!python::is_on()) [[likely]]
      return raw(node);
  }
  return capture_with_python(thread, entry, lookup_failed);
}

/// The fast path of capture() with a thread's own state, when there is an interpreter: looks up the stack in caches.
[[gnu::always_inline]] inline KnownStack find_with_python(ThreadState& thread, const EntryRegisters& entry) noexcept {
  KnownStack known;
  known.native = thread.unwinder.find_cached(entry, thread.native_definitions);
  if (known.native != NodeId::kNone) [[likely]]
    known.found = thread.python.find(known.native, thread.stream);
  return known;
}

/// Once libc has reported a second thread, the process counts as multi-threaded for good: libc may report later that
/// only one is left.
inline bool multi_threaded_is_noted() noexcept {
  return __atomic_load_n(&g_single_threaded, __ATOMIC_RELAXED) == &kMultiThreaded;
}
inline void note_multi_threaded() noexcept {
  if (!multi_threaded_is_noted()) [[unlikely]]
    set_multi_threaded();
}

/// Begins a run, and does the periodic work that is due. Afterwards the stream's time is that of the run's first
/// event; it contains a clock reading of this call.
void begin_run(ThreadState& thread) noexcept;

/// Call this for an event that a pause leaves out, so that `resume` works in a program that has no other events.
/// Without recorded events, no run ends but by the tick.
inline void pass_paused_event(ThreadState& thread) noexcept {
  if (!thread.stream.in_run() || !has_tick_word()) begin_run(thread);
}

/// The time of an event at `address` in a process with several threads (time_at_page). `begins`: the event begins a
/// run, so the stream's time contains a clock reading for it.
Ticks multi_threaded_time_of(ThreadState& thread, const void* address, PageEvent event, bool begins) noexcept;

/// The time of the thread's next event, which concerns the block at `address`. The event is committed next, without
/// anything that advances the stream's time before.
inline Ticks time_of_block_event(ThreadState& thread, const void* address, PageEvent event) noexcept {
  const bool begins = !thread.stream.in_run();
  if (begins) begin_run(thread);
  // Tested after the clock was read: a signal handler may have started the process's second thread meanwhile, and
  // that thread may have taken the page.
  if (is_single_threaded()) return thread.stream.last_time();
  note_multi_threaded();
  return multi_threaded_time_of(thread, address, event, begins);
}

/// The time of the thread's next event, which concerns a range of addresses or none.
inline Ticks time_of_other_event(ThreadState& thread) noexcept {
  const bool begins = !thread.stream.in_run();
  if (begins) begin_run(thread);
  return begins || is_single_threaded() ? thread.stream.last_time() : g_clock.now();
}

/// Commits an event; stops the recording when that fails.
inline void append(ThreadState& thread, Op op, Ticks time, const void* address, std::uint64_t size,
                   std::uint32_t node, std::uint32_t aux = 0) noexcept {
  if (!thread.stream.append(op, time, reinterpret_cast<std::uint64_t>(address), size, node, aux)) [[unlikely]]
    stop(thread.stream.failure());
}

}  // namespace heapprof::recorder
