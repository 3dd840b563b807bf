// What the recorder keeps for a thread, and how a thread comes by it.
//
// A thread's state is found through one thread-local pointer. States are never freed: when a thread has
// died (the kernel says so, at some later thread's start; a thread's last frees come after its last
// destructor, so nothing earlier is certain), its state, with stream and memory, is handed on to a new one.
//
// Re-entry. A signal handler may allocate while its thread is inside the recorder. `busy` holds the
// stack address of the recorder's caller while it is inside; a second entry then works on a state of its
// own, with its own stream, so that nothing is lost and nothing half-written is touched. If the handler
// left by longjmp the mark is stale: the next entry comes from higher up on the same stack, or finds that
// the stack at the mark holds something else by now, and takes the state back. A thread may also die inside the
// recorder, and its state is handed on with the mark. Whatever was left half done is done again by the next event, or
// given back (recover_abandoned).
#pragma once

#include <cstdint>

#include "preload/recorder/thread/thread_local.h"
#include "preload/recorder/trace/stream.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::recorder {

/// A call of a patched function that the thread is in (preload/intercept/call.h). Kept here and not in the call's own
/// frame: an exception may have left it, and its memory is somebody else's then.
struct InterceptedCall {
  const void* frame;  ///< where on the stack
  const void* target;
  const void* outer_reallocating;  ///< what ThreadLocal held before
  std::uint32_t outer_depth;
};
inline constexpr std::uint32_t kMaxInterceptedCalls = 8;

struct ThreadState {
  std::uint64_t busy;             ///< stack address of whoever is inside; 0: nobody
  std::uint32_t generation;       ///< g_process_generation when it was made: another one's stream is the parent's
  std::uint32_t depth;            ///< 0: a thread's own; n: for its n-th nested entry
  Stream stream;
  unwind::ThreadUnwinder unwinder;
  unwind::Definitions definitions;

  std::uint64_t claim;  ///< kernel thread id of the owner, below a count of owners that makes each claim unique
  std::uint64_t look_due;  ///< ticks at which a sample, or another look at the thread's name, may be due
  std::uint32_t name_interval;  ///< events between two looks at the name, until it is kLastNameInterval; 0: the
                                ///< trace has not been told yet whose state this is
  std::uint64_t name_due;       ///< ticks at which it is looked at in any case
  char name[16];
  std::uint32_t turn_runs;      ///< begun since it took the turn (turn.h); 0: it has not
  std::uint32_t turn_wait;      ///< runs until it tries
  std::uint32_t turn_last_wait;
  std::uint32_t seen_sequence;
  std::uint32_t intercepted;  ///< how many of the next
  InterceptedCall calls[kMaxInterceptedCalls];
  ThreadState* nested;  ///< the state of the next deeper entry, made when first needed
  ThreadState* next;    ///< in the list of all states

  int owner() const noexcept { return static_cast<int>(__atomic_load_n(&claim, __ATOMIC_ACQUIRE)); }
};

/// Above 0; raised in a forked child: states of before are the parent's.
extern std::uint32_t g_process_generation;

/// Points at what is not 0 while the process has one thread, as far as libc knows; once there have been more, at a 0:
/// every event needs its own time from then on.
extern const char* g_one_thread [[gnu::visibility("hidden")]];
extern const char kManyThreads [[gnu::visibility("hidden")]];  ///< that 0

/// The process has more than one thread, or has had.
void many_threads() noexcept;

/// Gives the calling thread a state. Null with recording stopped when there is no memory or file space.
ThreadState* attach_thread() noexcept;

/// Tells the trace whose the state is, where a longjmp came before that was done.
void announce_if_left(ThreadState& state) noexcept;

/// The state for an entry while `outer` is busy; null when too deep.
ThreadState* nested_state(ThreadState& outer) noexcept;

/// The state's owner, the kernel's thread `owner`, was inside and never came back: it left by a longjmp, or has died.
/// Gives back what was taken for the time of the event. May be called twice.
void recover_abandoned(ThreadState& state, int owner) noexcept;

/// True when `busy` was certainly left behind by a longjmp. A mark that only may be stale counts as not: its owner's
/// events then go to the nested state for a while. A higher stack pointer alone proves nothing: a handler may have
/// swapped to a fiber whose stack lies higher, and will swap back into the event.
bool busy_is_stale(const ThreadState& state, std::uint64_t stack_pointer) noexcept;

/// A thread's name is set soon after its start, seldom later: it is looked at after 1, 2, 4 and 8 events, then only
/// with each new block and every 10 ms, so that a system call is not one of the things that more events bring.
inline constexpr std::uint32_t kLastNameInterval = 16;

/// Commits the thread's name if it has changed.
void check_thread_name(ThreadState& state, std::uint64_t now) noexcept;

/// Has libc's fork call, in the child and before anything else, what parts the calling thread's unfinished events from
/// the parent's trace. Once a process, and only at its start: libc takes a lock for it.
void part_at_fork() noexcept;

/// In a forked child: forgets all states, whose streams are the parent's.
void forget_threads() noexcept;

}  // namespace heapprof::recorder
