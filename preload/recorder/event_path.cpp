#include "preload/recorder/event_path.h"

#include <optional>

#include "preload/python/left_out.h"
#include "preload/recorder/clock/tick.h"
#include "preload/recorder/control/control.h"
#include "preload/recorder/control/sampler.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/fast_path_mode.h"
#include "preload/recorder/residency/snapshots.h"

namespace heapprof::recorder {

namespace {

/// The number of events in a run. It is 1 without a tick word, which limits how long a run lasts: otherwise an event
/// after an hour's sleep would have the time of the events before it.
constexpr std::uint32_t kEventsPerRun = 32;
/// Events with a larger distance each get their own time, so that the timeline is exact.
constexpr std::uint64_t kMaxRunGapNs = 100'000;

/// Recovers a thread after a longjmp has abandoned its event, with any call of the allocator around the event. If a
/// realloc had begun, the trace contains a begin without an end, which readers recognize.
void recover_abandoned_event(ThreadState& thread) noexcept {
  t_local.allocator_depth = 0;
  t_local.reallocating = nullptr;
  recover_abandoned_state(thread);
  recover_abandoned_snapshot(thread);
  announce_if_abandoned(thread);
}

using LoaderWatcher = void() noexcept;
constinit LoaderWatcher* g_loader_watcher = nullptr;

/// Does the work that may be due at the end of a run or at next_check: a sample, a control request, a snapshot, a
/// check of the thread's name.
[[gnu::noinline]] void do_periodic_work(ThreadState& thread, Ticks now) noexcept {
  __atomic_store_n(&thread.last_stack_pointer, to_address(thread.busy), __ATOMIC_RELAXED);
  if (sample_if_due(thread, now)) {
    handle_control_request(thread);
    snapshot_if_due(thread, __atomic_load_n(&g_sampled_resident_bytes, __ATOMIC_RELAXED));
  }
  if (thread.name_interval != kMaxNameInterval || now >= thread.next_name_check ||
      thread.checked_sequence != thread.stream.sequence())
    check_thread_name(thread, now);
  const Ticks next_sample{__atomic_load_n(&g_next_sample, __ATOMIC_RELAXED)};
  thread.next_check = next_sample < thread.next_name_check ? next_sample : thread.next_name_check;
}

}  // namespace

[[gnu::noinline]] ThreadState* enter_slow(StackPointer stack_pointer) noexcept {
  if (state() == State::kNew) start();
  if (state() != State::kOn) return nullptr;
  if (in_forked_child()) {
    // A signal handler may have forked while it interrupted the recorder. Until the interrupted event has ended, the
    // child's events are not recorded.
    const ThreadState* const interrupted = t_local.state;
    if (interrupted != nullptr && interrupted->busy != StackPointer::kNone &&
        !busy_is_stale(*interrupted, stack_pointer))
      return nullptr;
    forked();
  }
  // Again: another thread of a forked child may have begun its trace since. Then this does not count as a forked
  // child any more, but nothing can be recorded before that trace is complete.
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (state() != State::kOn) return nullptr;
  ThreadState* thread = t_local.state;
  if (thread == nullptr || thread->generation != g_process_generation) {
    thread = attach_thread();
    if (thread == nullptr) return nullptr;
  }
  while (thread->busy != StackPointer::kNone) {
    if (busy_is_stale(*thread, stack_pointer)) {
      recover_abandoned_event(*thread);
      break;
    }
    // From now on the thread uses two streams. Only times order their events, so neither stream may continue a run.
    thread->stream.end_run();
    thread = nested_state(*thread);
    if (thread == nullptr) return nullptr;
    thread->stream.end_run();
  }
  thread->busy = stack_pointer;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  // A signal handler may have forked before `busy` was set, and the child may have begun its own trace since. Then
  // this event is one of the parent, and is not recorded.
  if (thread->generation == g_process_generation && !in_forked_child()) [[likely]]
    return thread;
  thread->busy = StackPointer::kNone;
  return nullptr;
}

namespace {

/// Counts a stack whose Python frames are left out because there is no memory for them, if it may have any.
[[gnu::noinline]] void leave_out_without_memory(ThreadState& thread, const EntryRegisters& entry) noexcept {
  python::note_unread_event(entry.pc);
  if (python::interpreter_is_on_stack(entry, thread.definitions))
    python::leave_out(python::LeftOut::kNoMemory, thread.stream);
}

}  // namespace

[[gnu::noinline]] std::uint32_t capture_with_python(ThreadState& thread, const EntryRegisters& entry,
                                                    bool lookup_failed, KnownStack known) noexcept {
  python::MixedStacks& stacks = thread.python;
  const bool cached = known.native != NodeId::kNone;  // then it needs no new number
  if (cached || !stacks.must_begin() || begin_python_frames(thread)) [[likely]] {
    const unwind::Captured captured =
        !cached && lookup_failed ? unwind::Captured::kSlowly : unwind::Captured::kAnyhow;
    if (!cached) {
      known.native = lookup_failed ? thread.unwinder.capture_slow(entry, thread.native_definitions)
                                   : thread.unwinder.capture(entry, thread.native_definitions);
      known.found = stacks.find(known.native, thread.stream);
      if (python::MixedStacks::is_node(known.found)) [[likely]]
        return raw(known.found);
    }
    const std::optional<NodeId> node =
        known.found == python::MixedStacks::kFramesRead
            ? stacks.place_read(known.native, entry, thread.unwinder, captured, thread.definitions, thread.stream)
            : stacks.place(known.native, entry, thread.unwinder, captured, thread.definitions, thread.stream);
    if (node) [[likely]]
      return raw(*node);
    thread.unwinder.recover_abandoned_capture();  // it has numbers of C stacks
  }
  leave_out_without_memory(thread, entry);
  return raw(thread.unwinder.capture_slow(entry, thread.definitions));
}

[[gnu::noinline]] void loader_event() noexcept {
  unwind::loader_activity();
  if (g_loader_watcher != nullptr) g_loader_watcher();
}

void watch_loader(void (*watcher)() noexcept) noexcept { g_loader_watcher = watcher; }

[[gnu::noinline]] void begin_run(ThreadState& thread) noexcept {
  // The run begins before the clock is read, so that the event of a signal handler in between can end it.
  const bool first_runs = thread.name_interval != kMaxNameInterval && !is_single_threaded();
  thread.stream.begin_run(!has_tick_word() ? 1 : first_runs ? thread.name_interval : kEventsPerRun);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const Ticks now = g_clock.now();
  if (now - thread.stream.last_time() > g_clock.ticks_in(kMaxRunGapNs)) thread.stream.end_run();
  do_periodic_work(thread, now);
  thread.stream.advance_time(now);  // even if no event follows (in a pause)
}

[[gnu::noinline]] Ticks multi_threaded_time_of(ThreadState& thread, const void* address, PageEvent event,
                                               bool begins) noexcept {
  Stream& stream = thread.stream;
  const Ticks time = time_at_page(stream.id(), stream.last_time(), begins, address, event);
  stream.advance_time(time);
  return time;
}

}  // namespace heapprof::recorder
