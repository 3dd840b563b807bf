#include "preload/recorder/event_path.h"

#include "preload/recorder/clock/tick.h"
#include "preload/recorder/control/control.h"
#include "preload/recorder/control/sampler.h"
#include "preload/recorder/lifecycle.h"

namespace heapprof::recorder {

namespace {

/// Events with one time, in a process with one thread or for the holder of the clock lease. Only while the tick
/// limits how long a run lasts: without it, an event after an hour's sleep would have the time of the events before.
constexpr std::uint32_t kEventsPerClock = 32;
inline std::uint32_t events_per_clock() noexcept { return has_tick_word() ? kEventsPerClock : 1; }
/// Events of a run whose thread does not hold the lease: after each run it may try to acquire it.
constexpr std::uint32_t kEventsPerAttempt = 128;
/// Events that are further apart each get a time of their own, so that the timeline stays exact.
constexpr std::uint64_t kMaxRunGapNs = 100'000;

/// A longjmp has abandoned an event of this thread, and the allocator's call around it. A block whose realloc had
/// begun stays in doubt, which the reader of the trace can see.
void recover_abandoned_event(ThreadState& thread) noexcept {
  t_local.allocator_depth = 0;
  t_local.reallocating = nullptr;
  recover_abandoned_state(thread, thread.owner());
  announce_if_abandoned(thread);
}

using LoaderWatcher = void() noexcept;
constinit LoaderWatcher* g_loader_watcher = nullptr;

/// What may be due at the end of a run, or at next_check: a sample, a control request, the thread's name.
[[gnu::noinline]] void do_periodic_work(ThreadState& thread, Ticks now) noexcept {
  if (sample_if_due(thread, now)) handle_control_request(thread);
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
    // If a handler that interrupted this thread inside the recorder has forked, the interrupted event has to end
    // first.
    const ThreadState* const interrupted = t_local.state;
    if (interrupted != nullptr && interrupted->busy != StackPointer::kNone &&
        !busy_is_stale(*interrupted, stack_pointer))
      return nullptr;
    forked();
    if (state() != State::kOn) return nullptr;
  }
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
    // The thread uses two streams now, which only times order: neither may continue a run.
    thread->stream.end_run();
    thread = nested_state(*thread);
    if (thread == nullptr) return nullptr;
    thread->stream.end_run();
  }
  thread->busy = stack_pointer;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  // A handler may have forked before `busy` was set, and its child may have begun a trace of its own since: then this
  // event is the parent's.
  if (thread->generation == g_process_generation && !in_forked_child()) [[likely]]
    return thread;
  thread->busy = StackPointer::kNone;
  return nullptr;
}

[[gnu::noinline]] void loader_event() noexcept {
  unwind::loader_activity();
  if (g_loader_watcher != nullptr) g_loader_watcher();
}

void watch_loader(void (*watcher)() noexcept) noexcept { g_loader_watcher = watcher; }

[[gnu::noinline]] Ticks begin_single_threaded_run(ThreadState& thread) noexcept {
  // The run begins before the clock is read: a handler may have an event in between, and ends the run.
  thread.stream.begin_run(events_per_clock());
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const Ticks now = g_clock.now();
  if (now - thread.stream.last_time() > g_clock.ticks_in(kMaxRunGapNs)) thread.stream.end_run();
  do_periodic_work(thread, now);
  return now;
}

/// A sample or a mark may raise the stream's time beyond `now`, for which the lease has been checked.
Ticks time_after_periodic_work(ThreadState& thread, Ticks now) noexcept {
  do_periodic_work(thread, now);
  return thread.stream.last_time() <= now ? now : now_revoking_lease(thread);
}

[[gnu::noinline]] Ticks begin_multi_threaded_run(ThreadState& thread) noexcept {
  const bool leased = thread.name_interval == kMaxNameInterval && keep_or_acquire_clock_lease(thread);
  thread.stream.begin_run(leased                                     ? events_per_clock()
                          : thread.name_interval == kMaxNameInterval ? kEventsPerAttempt
                                                                     : thread.name_interval);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  Ticks now = now_revoking_lease(thread);
  if (leased && now - thread.stream.last_time() > g_clock.ticks_in(kMaxRunGapNs)) thread.stream.end_run();
  now = time_after_periodic_work(thread, now);
  thread.stream.advance_time(now);  // also where no event is written now
  return now;
}

}  // namespace heapprof::recorder
