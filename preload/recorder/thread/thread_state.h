// What the recorder keeps for a thread, found through one thread-local pointer, and how a thread gets it.
//
// States are never freed: the state of a dead thread, with its stream and memory, is reused for a new one. The kernel
// tells when a thread is dead; nothing earlier is certain, as its last frees come after its last destructor.
//
// Re-entry: a signal handler may allocate while its thread is inside the recorder (`busy`). The handler's events then
// use a nested state with a stream of its own, so nothing is lost and nothing half-written is touched. A `busy` that
// a longjmp has left behind is stale (busy_is_stale); the next event, or the state's next owner, then calls
// recover_abandoned_state().
#pragma once

#include <cstdint>

#include "preload/base/address_types.h"
#include "preload/recorder/clock/clock_lease.h"
#include "preload/recorder/clock/time_types.h"
#include "preload/recorder/thread/thread_local.h"
#include "preload/recorder/trace/stream.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::recorder {

/// A call of a patched function that the thread is in (preload/intercept/patched_call.h). It is kept here and not in
/// the call's stack frame, because an exception may have left that frame, whose memory then belongs to somebody else.
struct InterceptedCall {
  const void* frame;  ///< address of the frame on the stack
  const void* target;
  const void* outer_reallocating;  ///< ThreadLocal::reallocating before the call
  std::uint32_t outer_depth;       ///< ThreadLocal::allocator_depth before the call
};
inline constexpr std::uint32_t kMaxInterceptedCalls = 8;

struct ThreadState {
  StackPointer busy;         ///< of the recorder's caller while the thread is inside; else kNone
  std::uint32_t generation;  ///< g_process_generation when the state was created; another one: the parent's state
  std::uint32_t depth;       ///< 0: the thread's own state; n: for its n-th nested entry
  Stream stream;
  unwind::ThreadUnwinder unwinder;
  unwind::Definitions definitions;

  std::uint64_t claim;  ///< low half: the owner's kernel thread id; high half: a count that makes each claim unique
  Ticks next_check;     ///< when periodic work may be due: a sample, or a check of the thread's name
  /// Events between two checks of the name, up to kMaxNameInterval. 0: the trace has no record of the owner yet.
  std::uint32_t name_interval;
  Ticks next_name_check;  ///< when the name is checked in any case
  char name[16];
  LeaseHistory lease;
  std::uint32_t checked_sequence;  ///< Stream::sequence() at the last check of the name
  std::uint32_t intercepted;       ///< calls in use of the next member
  InterceptedCall calls[kMaxInterceptedCalls];
  ThreadState* nested;  ///< the state for the next deeper entry, created when first needed
  ThreadState* next;    ///< in the list of all states

  int owner() const noexcept { return static_cast<int>(__atomic_load_n(&claim, __ATOMIC_ACQUIRE)); }
};

/// Above 0. Incremented in a forked child: older states are the parent's.
extern std::uint32_t g_process_generation;

/// Points to a nonzero value while the process has one thread, as far as libc knows; to kMultiThreaded, which is 0,
/// once it has had more. From then on every event needs a time of its own.
extern const char* g_single_threaded [[gnu::visibility("hidden")]];
extern const char kMultiThreaded [[gnu::visibility("hidden")]];

/// Records that the process has, or has had, more than one thread.
void set_multi_threaded() noexcept;

/// Gives the calling thread a state. Null: system calls are forbidden, or there is no memory or file space, which
/// stops the recording.
ThreadState* attach_thread() noexcept;

/// Writes the owner's record to the trace if a longjmp abandoned attach_thread() before that.
void announce_if_abandoned(ThreadState& state) noexcept;

/// The state for an entry while `outer` is busy. Null: too deep, or no memory.
ThreadState* nested_state(ThreadState& outer) noexcept;

/// Repairs a state whose owner, the kernel's thread `owner`, was inside the recorder and has not returned: it left by
/// longjmp, or has died. May be called twice.
void recover_abandoned_state(ThreadState& state, int owner) noexcept;

/// True when `busy` was certainly left behind by a longjmp. In doubt it is false: the owner's events then use the
/// nested state for a while. `stack_pointer`: the caller's. That it is above `busy` proves something only on the
/// thread's own stack: a handler may have switched to a fiber with a higher stack, and will return into the
/// interrupted event.
bool busy_is_stale(const ThreadState& state, StackPointer stack_pointer) noexcept;

/// A thread's name is usually set soon after its start. It is checked after 1, 2, 4 and 8 events, then only with each
/// new block and every 10 ms, so that the number of system calls does not grow with the number of events.
inline constexpr std::uint32_t kMaxNameInterval = 16;

/// Commits the thread's name if it has changed.
void check_thread_name(ThreadState& state, Ticks now) noexcept;

/// Registers a handler with libc's fork that detaches the calling thread's unfinished events from the parent's trace:
/// in the child, before anything else. Once per process and only at its start, because libc takes a lock for it.
void detach_at_fork() noexcept;

/// In a forked child: forgets all states, whose streams are the parent's.
void forget_threads() noexcept;

// The clock lease, by thread.

inline LeaseHolder lease_holder(const ThreadState& thread) noexcept {
  return LeaseHolder{reinterpret_cast<std::uint64_t>(&thread)};
}
inline bool holds_clock_lease(const ThreadState& thread) noexcept { return holds_clock_lease(lease_holder(thread)); }
inline Ticks now_revoking_lease(const ThreadState& thread) noexcept {
  return now_revoking_lease(lease_holder(thread));
}
/// A nested state never acquires the lease: signal handlers have few events.
inline bool keep_or_acquire_clock_lease(ThreadState& thread) noexcept {
  return thread.depth == 0 && keep_or_acquire_clock_lease(lease_holder(thread), thread.lease);
}

}  // namespace heapprof::recorder
