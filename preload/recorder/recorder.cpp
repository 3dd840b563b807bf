// The event path: hook -> enter_at_gate() -> stack -> time -> append -> leave().
//
// Events come in runs (Stream::begin_run) during which nothing is due. Within one, an allocation whose stack is a
// known path and a release take the short way: detail::allocated, detail::freed, which call nothing. One
// comparison, of the gate (fork_watch.h), tells them that the process is this one, recording and not paused. Whatever
// they are not made for they leave, by a jump, to the functions after them, which are made for everything: to
// ..._slowly while the thread's state is not taken, to ..._entered when it is. A run has one time, so that its events
// need not read the clock, in a process with one thread and in the turn of one of several (turn.h).
#include "preload/recorder/recorder.h"

#include <sys/auxv.h>
#include <sys/mman.h>

#include "preload/base/text.h"
#include "preload/recorder/call_tree/call_tree.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/clock_lease.h"
#include "preload/recorder/clock/tick.h"
#include "preload/recorder/control/control.h"
#include "preload/recorder/control/sampler.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/log.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::recorder {

namespace {

/// Events with one time, while the process has one thread or it is the thread's turn. Within a tick, that is: without
/// knowing those, an event after an hour's sleep would have the time of those before.
constexpr std::uint32_t kEventsPerClock = 32;
inline std::uint32_t events_per_clock() noexcept { return tick_is_known() ? kEventsPerClock : 1; }
/// Events between two times that a thread thinks of taking the turn.
constexpr std::uint32_t kEventsPerTry = 128;
/// But not when they come so slowly that this would blur the timeline.
constexpr std::uint64_t kSlowNs = 100'000;

/// A longjmp has left the recorder, and whatever of the allocator was around it, for good: what was taken for the
/// time of the call is given back. A block whose realloc was begun stays in doubt, which the reader knows.
void left_by_longjmp(ThreadState& thread) noexcept {
  t_local.allocator_depth = 0;
  t_local.reallocating = nullptr;
  recover_abandoned(thread, thread.owner());
  announce_if_left(thread);
}

/// Takes the thread's state for one event; null when nothing is to be recorded.
[[gnu::noinline]] ThreadState* enter_slowly(std::uint64_t stack_pointer) noexcept {
  if (state() == State::kNew) start();
  if (state() != State::kOn) return nullptr;
  if (in_forked_child()) {
    // Forked by a handler that interrupted this very thread in the recorder: let that come to its end first.
    if (t_local.state != nullptr && t_local.state->busy != 0 && !busy_is_stale(*t_local.state, stack_pointer))
      return nullptr;
    forked();
    if (state() != State::kOn) return nullptr;
  }
  ThreadState* thread = t_local.state;
  if (thread == nullptr || thread->generation != g_process_generation) {
    thread = attach_thread();
    if (thread == nullptr) return nullptr;
  }
  while (thread->busy != 0) {
    if (busy_is_stale(*thread, stack_pointer)) {
      left_by_longjmp(*thread);
      break;
    }
    // Two streams of one thread: only times order them, so neither may go on with an old one.
    thread->stream.end_run();
    thread = nested_state(*thread);
    if (thread == nullptr) return nullptr;
    thread->stream.end_run();
  }
  thread->busy = stack_pointer;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  // A handler may have forked before the mark was there, and its child begun anew since: then this is an event of the
  // parent's.
  if (thread->generation == g_process_generation && !in_forked_child()) [[likely]] return thread;
  thread->busy = 0;
  return nullptr;
}

/// The same where nothing is out of the ordinary: recording, not paused, nobody inside. Null: nothing is said by
/// that. The mark comes before the question: from there on a child, forked by a handler, finds that somebody is inside.
inline ThreadState* enter_at_gate() noexcept {
  ThreadState* thread = t_local.state;
  if (thread == nullptr || thread->busy != 0) [[unlikely]] return nullptr;
  thread->busy = arch::stack_pointer();
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (__atomic_load_n(&g_fork_page->gate, __ATOMIC_RELAXED) == thread->generation) [[likely]] return thread;
  thread->busy = 0;
  return nullptr;
}

inline ThreadState* enter() noexcept {
  ThreadState* const thread = enter_at_gate();
  return thread != nullptr ? thread : enter_slowly(arch::stack_pointer());
}

[[gnu::always_inline]] inline void leave(ThreadState& thread) noexcept {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread.busy = 0;
}

using LoaderWatcher = void() noexcept;
constinit LoaderWatcher* g_loader_watcher = nullptr;

[[gnu::noinline]] void loader_event() noexcept {
  unwind::loader_activity();
  if (g_loader_watcher != nullptr) g_loader_watcher();
}

inline std::uint32_t capture(ThreadState& thread, const EntryRegisters& entry) noexcept {
  if (unwind::is_loader(entry.pc)) [[unlikely]] loader_event();
  if (thread.depth != 0) [[unlikely]] return raw(unwind::capture_nested(entry, thread.definitions));
  return raw(thread.unwinder.capture(entry, thread.definitions));
}

/// What may be due at the end of a run, or at look_due: a sample, a letter, the thread's name.
[[gnu::noinline]] void look_around(ThreadState& thread, std::uint64_t now) noexcept {
  if (sample_if_due(thread, now)) read_mailbox(thread);
  if (thread.name_interval != kLastNameInterval || now >= thread.name_due ||
      thread.seen_sequence != thread.stream.sequence())
    check_thread_name(thread, now);
  const std::uint64_t sample_due = __atomic_load_n(&g_next_sample, __ATOMIC_RELAXED);
  thread.look_due = sample_due < thread.name_due ? sample_due : thread.name_due;
}

/// The first event of a run in a process with one thread, and those around a nested entry.
[[gnu::noinline]] std::uint64_t event_time_of_one_thread(ThreadState& thread) noexcept {
  thread.stream.begin_run(events_per_clock());  // before the clock is read: a handler may come in between, and end it
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const std::uint64_t now = g_clock.now();
  if (now - thread.stream.last_time() > g_clock.ticks_in(kSlowNs)) thread.stream.end_run();
  look_around(thread, now);
  return now;
}

/// Looks around before an event whose time was to be `now`; the time that it has then. A sample or a letter may have
/// raised the stream's time beyond `now`, which was all that was checked against the turn.
inline std::uint64_t time_after_looking_around(ThreadState& thread, std::uint64_t now) noexcept {
  look_around(thread, now);
  return thread.stream.last_time() <= now ? now : time_of_its_own(thread);
}

/// The first event of a run in a process with several threads.
[[gnu::noinline]] std::uint64_t event_time_of_many(ThreadState& thread) noexcept {
  const bool turn = thread.name_interval == kLastNameInterval && keep_or_take_turn(thread);
  thread.stream.begin_run(turn                                        ? events_per_clock()
                          : thread.name_interval == kLastNameInterval ? kEventsPerTry
                                                                      : thread.name_interval);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  std::uint64_t now = time_of_its_own(thread);
  if (turn && now - thread.stream.last_time() > g_clock.ticks_in(kSlowNs)) thread.stream.end_run();
  now = time_after_looking_around(thread, now);
  thread.stream.not_before(now);  // also where no event is written now
  return now;
}

inline bool has_one_thread() noexcept { return *__atomic_load_n(&g_one_thread, __ATOMIC_RELAXED) != 0; }

/// Once libc has spoken of more threads, it is taken at its word for good: it may say later that there is but one
/// left.
inline void has_many_threads() noexcept {
  if (__atomic_load_n(&g_one_thread, __ATOMIC_RELAXED) != &kManyThreads) [[unlikely]] many_threads();
}

inline std::uint64_t event_time(ThreadState& thread) noexcept {
  if (has_one_thread()) return thread.stream.in_run() ? thread.stream.last_time() : event_time_of_one_thread(thread);
  has_many_threads();
  if (!thread.stream.in_run()) return event_time_of_many(thread);
  if (has_turn(thread)) return thread.stream.last_time();
  const std::uint64_t now = time_of_its_own(thread);
  return now >= thread.look_due ? time_after_looking_around(thread, now) : now;
}

inline void append(ThreadState& thread, Op op, std::uint64_t time, const void* address, std::uint64_t size,
                   std::uint32_t node, std::uint32_t aux = 0) noexcept {
  if (!thread.stream.append(op, time, reinterpret_cast<std::uint64_t>(address), size, node, aux)) [[unlikely]]
    stop(thread.stream.failure());
}

/// For the outer call's AllocatorCall::recorded.
inline void told_inside(const void* block) noexcept {
  if (t_local.allocator_depth != 0) t_local.inner_blocks.add(block);
}

/// `thread` has entered, and it is not paused.
inline void record_allocation(ThreadState& thread, const void* block, std::size_t size, std::uint32_t node) noexcept {
  append(thread, Op::kAlloc, event_time(thread), block, size, node);
  told_inside(block);
  // The real realloc has given up its old block by now, and a signal handler was given it.
  if (t_local.reallocating == block) t_local.reallocating = nullptr;
}

/// A signal handler may take a block and give it back while the real malloc is at work, which then returns the very
/// same: the outer allocation is another one (AllocatorCall::recorded).
inline void given_back(const void* block) noexcept { t_local.inner_blocks.remove(block); }

// ---- allocations -----------------------------------------------------------------------------------

/// Its thread has entered.
[[gnu::noinline]] void allocated_entered(ThreadState* thread, const void* block, std::size_t size, std::uint64_t pc,
                                         std::uint64_t sp, std::uint64_t fp) noexcept {
  const EntryRegisters entry{pc, sp, fp};
  if (!paused()) {
    record_allocation(*thread, block, size, capture(*thread, entry));
  } else {
    if (unwind::is_loader(pc)) [[unlikely]] loader_event();  // objects come and go in a pause, too
    event_time(*thread);  // for the mailbox: who only allocates must still hear of the end of the pause
  }
  leave(*thread);
}

[[gnu::noinline]] void allocated_slowly(const void* block, std::size_t size, std::uint64_t pc, std::uint64_t sp,
                                        std::uint64_t fp) noexcept {
  if (ThreadState* const thread = enter()) allocated_entered(thread, block, size, pc, sp, fp);
}

/// The short way of threads that have entered. kTimed: in a process with several.
template <bool kTimed>
[[gnu::always_inline]] inline void allocated_shortly(ThreadState* thread, const void* block, std::size_t size,
                                                     std::uint64_t pc, std::uint64_t sp, std::uint64_t fp) noexcept {
  Stream& stream = thread->stream;
  if (!stream.in_run() || size >= kMaxSize) [[unlikely]] return allocated_entered(thread, block, size, pc, sp, fp);
  const NodeId node = thread->unwinder.recall({pc, sp, fp}, thread->definitions);
  if (node == NodeId::kNone) [[unlikely]] return allocated_entered(thread, block, size, pc, sp, fp);
  const std::uint64_t op_and_size = op_size(Op::kAlloc, size);
  if constexpr (kTimed) {
    has_many_threads();
    if (!has_turn(*thread)) {
      const std::uint64_t now = g_clock.now();
      if (its_turn_after(now) != 0 || now >= thread->look_due) [[unlikely]]
        return allocated_entered(thread, block, size, pc, sp, fp);
      stream.not_before(now);
    }
    if (!in_forked_child()) [[likely]] stream.commit_next(block, op_and_size, raw(node));
  } else {
    if (!in_forked_child()) [[likely]] stream.commit_next(block, op_and_size, raw(node));
  }
  leave(*thread);
}

[[gnu::noinline]] void allocated_timed(ThreadState* thread, const void* block, std::size_t size, std::uint64_t pc,
                                       std::uint64_t sp, std::uint64_t fp) noexcept {
  allocated_shortly<true>(thread, block, size, pc, sp, fp);
}

// ---- releases --------------------------------------------------------------------------------------

[[gnu::noinline]] void released_entered(ThreadState* thread, const void* block, std::uint64_t pc, std::uint64_t sp,
                                        std::uint64_t fp) noexcept {
  if (g_settings.free_stacks) {
    const std::uint32_t node = capture(*thread, {pc, sp, fp});
    append(*thread, Op::kFreeStack, event_time(*thread), block, 0, node);
  } else {
    if (unwind::is_loader(pc)) loader_event();
    append(*thread, Op::kFree, event_time(*thread), block, 0, 0);
  }
  leave(*thread);
}

[[gnu::noinline]] void released_slowly(const void* block, std::uint64_t pc, std::uint64_t sp,
                                       std::uint64_t fp) noexcept {
  if (t_local.allocator_depth != 0) {
    // The real realloc gives up its old block through our free: realloc_begin has recorded that.
    if (t_local.reallocating == block) return;
    given_back(block);
  }
  if (ThreadState* const thread = enter()) released_entered(thread, block, pc, sp, fp);
}

[[gnu::noinline]] void released_timed(ThreadState* thread, const void* block, std::uint64_t pc, std::uint64_t sp,
                                      std::uint64_t fp) noexcept {
  has_many_threads();
  if (!has_turn(*thread)) {
    const std::uint64_t now = g_clock.now();
    if (its_turn_after(now) != 0 || now >= thread->look_due) [[unlikely]]
      return released_entered(thread, block, pc, sp, fp);
    thread->stream.not_before(now);
  }
  if (!in_forked_child()) [[likely]] thread->stream.commit_next(block, op_size(Op::kFree, 0), 0);
  leave(*thread);
}

}  // namespace

void detail::allocated(const void* block, std::size_t size, std::uint64_t pc, std::uint64_t sp,
                       std::uint64_t fp) noexcept {
  ThreadState* const thread = enter_at_gate();
  if (thread == nullptr) [[unlikely]] return allocated_slowly(block, size, pc, sp, fp);
  if (!has_one_thread()) return allocated_timed(thread, block, size, pc, sp, fp);
  allocated_shortly<false>(thread, block, size, pc, sp, fp);
}

void detail::allocated_inside(const void* block, std::size_t size, std::uint64_t pc, std::uint64_t sp,
                              std::uint64_t fp) noexcept {
  allocated_slowly(block, size, pc, sp, fp);
}

void detail::freed(const void* block, std::uint64_t pc, std::uint64_t sp, std::uint64_t fp) noexcept {
  if (t_local.allocator_depth != 0) [[unlikely]] return released_slowly(block, pc, sp, fp);
  ThreadState* const thread = enter_at_gate();
  if (thread == nullptr) [[unlikely]] return released_slowly(block, pc, sp, fp);
  Stream& stream = thread->stream;
  if (unwind::is_loader(pc) || !stream.in_run()) [[unlikely]] return released_entered(thread, block, pc, sp, fp);
  if (!has_one_thread()) return released_timed(thread, block, pc, sp, fp);
  if (!in_forked_child()) [[likely]] stream.commit_next(block, op_size(Op::kFree, 0), 0);
  leave(*thread);
}

void allocation_failed(std::size_t size, const EntryRegisters& entry) noexcept {
  // One of an allocator made of hooks, inside a call that the program made: whether that failed, it will tell itself.
  if (t_local.allocator_depth != 0) return;
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (!paused()) {
    const std::uint32_t node = capture(*thread, entry);
    append(*thread, Op::kAllocFailed, event_time(*thread), nullptr, size, node);
  }
  leave(*thread);
}

bool realloc_begin(const void* old_block, const EntryRegisters& entry) noexcept {
  if (t_local.allocator_depth != 0) [[unlikely]] {
    // The real reallocarray calls our realloc: the outer one has begun, and will end.
    if (t_local.reallocating == old_block) return false;
    given_back(old_block);
  }
  ThreadState* thread = enter();
  if (thread == nullptr) return false;
  if (unwind::is_loader(entry.pc)) [[unlikely]] loader_event();
  append(*thread, Op::kReallocBegin, event_time(*thread), old_block, 0, 0);
  t_local.reallocating = old_block;
  leave(*thread);
  return true;
}

void realloc_end(const void*, const void* new_block, std::size_t size, const EntryRegisters& entry,
                 const AllocatorCall& call) noexcept {
  t_local.reallocating = nullptr;
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (new_block == nullptr && size != 0) {
    const std::uint32_t node = capture(*thread, entry);
    append(*thread, Op::kReallocFailed, event_time(*thread), nullptr, size, node);
  } else if (new_block == nullptr || paused() || call.recorded(new_block)) {
    append(*thread, Op::kReallocEnd, event_time(*thread), nullptr, 0, 0);
  } else {
    const std::uint32_t node = capture(*thread, entry);
    append(*thread, Op::kReallocEnd, event_time(*thread), new_block, size, node);
    told_inside(new_block);
  }
  leave(*thread);
}

namespace {

/// The kernel maps and unmaps whole pages, whatever length it is asked for.
std::size_t whole_pages(std::size_t size) noexcept {
  const std::size_t page = getauxval(AT_PAGESZ);
  return (size + page - 1) & ~(page - 1);
}

}  // namespace

void mapped(const void* address, std::size_t size, int protection, int flags, const EntryRegisters& entry) noexcept {
  if ((flags & MAP_FIXED) != 0) forget_tick_in(address, whole_pages(size));
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if ((flags & MAP_FIXED) != 0) unwind::forget_stack_region(reinterpret_cast<std::uint64_t>(address), size);
  if (g_settings.mmap && !paused()) {
    const std::uint32_t node = capture(*thread, entry);
    const std::uint32_t kind = ((flags & MAP_ANONYMOUS) != 0 ? kMapAnonymous : 0) |
                               (t_local.allocator_depth != 0 ? kMapFromAllocator : 0) |
                               (protection == PROT_NONE ? kMapReserve : 0);
    append(*thread, Op::kMap, event_time(*thread), address, whole_pages(size), node, kind);
  }
  leave(*thread);
}

void unmap_begin(const void* address, std::size_t size, const EntryRegisters&) noexcept {
  forget_tick_in(address, whole_pages(size));
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  unwind::forget_stack_region(reinterpret_cast<std::uint64_t>(address), size);
  if (g_settings.mmap) append(*thread, Op::kUnmapBegin, event_time(*thread), address, whole_pages(size), 0);
  leave(*thread);
}

void unmap_end(bool succeeded) noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (g_settings.mmap)
    append(*thread, succeeded ? Op::kUnmapEnd : Op::kUnmapFailed, event_time(*thread), nullptr, 0, 0);
  leave(*thread);
}

void remap_begin(const void* old_address, std::size_t old_size, const EntryRegisters&) noexcept {
  forget_tick_in(old_address, whole_pages(old_size));
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  unwind::forget_stack_region(reinterpret_cast<std::uint64_t>(old_address), old_size);
  if (g_settings.mmap) append(*thread, Op::kRemapBegin, event_time(*thread), old_address, whole_pages(old_size), 0);
  leave(*thread);
}

void remap_end(const void* new_address, std::size_t new_size, const EntryRegisters& entry) noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (g_settings.mmap) {
    if (new_address == nullptr) {
      append(*thread, Op::kRemapFailed, event_time(*thread), nullptr, 0, 0);
    } else {
      const std::uint32_t node = capture(*thread, entry);
      append(*thread, Op::kRemapEnd, event_time(*thread), new_address, whole_pages(new_size), node);
    }
  }
  leave(*thread);
}

void break_moved(const void* old_break, const void* new_break, const EntryRegisters& entry) noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (g_settings.mmap && !paused()) {
    const std::uint32_t node = capture(*thread, entry);
    append(*thread, Op::kBrk, event_time(*thread), new_break, reinterpret_cast<std::uint64_t>(old_break), node);
  }
  leave(*thread);
}

void restrict_system_calls(bool no_cycle_clock) noexcept {
  if (ThreadState* thread = enter()) {
    thread->stream.provide_room();
    // Now, since a forked child cannot log that it is not recorded.
    log(LogLevel::kInfo, "the program forbids system calls (seccomp) or the cycle clock: from here on no samples are "
                         "taken, and new threads and forked children are not recorded");
    leave(*thread);
  }
  // In this order: whoever reads the frozen clock finds system calls forbidden, or the sampler stopped since
  // (take_sample).
  __atomic_fetch_add(&sys::g_forbidden, 1, __ATOMIC_SEQ_CST);
  if (no_cycle_clock) g_clock.freeze();
  stop_sampler();
}

void restriction_refused(bool no_cycle_clock) noexcept {
  if (no_cycle_clock) g_clock.thaw();
  if (__atomic_sub_fetch(&sys::g_forbidden, 1, __ATOMIC_SEQ_CST) == 0) resume_sampler();
}

void exit_reached() noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  take_sample(*thread);
  FileHeader& header = *g_trace_file.header();
  write_end_time(header);
  header.end_status = kEndStatusUnknown;
  __atomic_store_n(&header.end_kind, EndKind::kExit, __ATOMIC_RELEASE);
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
  set_mark(*thread, text, text_length(text));
  leave(*thread);
}

void note(const char* text, NoteKind kind) noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  thread->stream.append_text(TextKind::kNote, static_cast<std::uint64_t>(kind), 0, text, text_length(text));
  leave(*thread);
}

void watch_loader(void (*watcher)() noexcept) noexcept { g_loader_watcher = watcher; }

bool is_recording() noexcept { return state() == State::kOn && !paused(); }

}  // namespace heapprof::recorder
