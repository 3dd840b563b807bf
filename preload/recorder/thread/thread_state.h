// The recorder's state for a thread, to which a thread-local pointer leads, and how a thread gets one.
//
// States are never freed: the state of a dead thread, with its stream and memory, is reused for a new one. The
// recorder asks the kernel whether a thread is dead; no earlier event is reliable, because the last frees of a thread
// come after its last thread-specific destructor.
//
// Re-entry: a signal handler may allocate while its thread is inside the recorder (`busy`). The handler's events then
// use a nested state with its own stream, so no event is lost and no unfinished event is changed. A `busy` that a
// longjmp has left behind is stale (busy_is_stale); the next event, or the state's next owner, then calls
// recover_abandoned_state().
#pragma once

#include <cstdint>

#include "preload/base/address_types.h"
#include "preload/python/mixed_stacks.h"
#include "preload/recorder/clock/time_types.h"
#include "preload/recorder/thread/thread_local.h"
#include "preload/recorder/trace/stream.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::recorder {

/// A call of a patched function that the thread is in (preload/intercept/patched_call.h). It is kept here and not in
/// the call's stack frame, because an exception may have left that frame, whose memory is then reused.
struct InterceptedCall {
  const void* frame;  ///< address of the frame on the stack
  const void* target;
  const void* outer_reallocating;  ///< ThreadLocal::reallocating before the call
  std::uint32_t outer_depth;       ///< ThreadLocal::allocator_depth before the call
};
inline constexpr std::uint32_t kMaxInterceptedCalls = 8;

struct ThreadState {
  StackPointer busy;  ///< stack pointer of the recorder's caller while the thread is inside the recorder; else kNone
  std::uint32_t generation;  ///< g_process_generation at its creation; if it differs now, the state is the parent's
  std::uint32_t depth;       ///< 0: the thread's own state; n: its n-th nested state
  Stream stream;
  unwind::ThreadUnwinder unwinder;
  unwind::Definitions definitions;
  unwind::Definitions native_definitions;  ///< those of `unwinder` after begin_python_frames()
  python::MixedStacks python;              ///< not in a nested state

  std::uint64_t claim;  ///< low half: the owner's kernel thread id; high half: a count that makes each claim unique
  Ticks next_check;     ///< when periodic work may be due: a sample, or a check of the thread's name
  /// Events between two checks of the name, up to kMaxNameInterval. 0: the trace has no record of the owner yet.
  std::uint32_t name_interval;
  Ticks next_name_check;  ///< when the name is checked in any case
  char name[16];
  std::uint32_t checked_sequence;  ///< Stream::sequence() at the last check of the name
  std::uint32_t intercepted;       ///< number of elements of `calls` in use
  InterceptedCall calls[kMaxInterceptedCalls];
  std::uint64_t last_stack_pointer;  ///< at the last periodic work, for snapshots; 0: unknown
  std::uint64_t stack_end;           ///< the address after the highest byte of the owner's stack; 0: unknown
  ThreadState* nested;               ///< the next deeper nested state, created when first needed
  ThreadState* next;                 ///< in the list of all states

  int owner() const noexcept { return static_cast<int>(__atomic_load_n(&claim, __ATOMIC_ACQUIRE)); }
};

/// Above 0. Incremented in a forked child: older states are the parent's.
extern std::uint32_t g_process_generation;

/// Prepares the calling thread's own state for Python frames: its unwinder is then used with `native_definitions`.
/// May be called again. Returns false if there is no memory.
bool begin_python_frames(ThreadState& thread) noexcept;

/// Gives the calling thread a state. Returns null if system calls are forbidden, or if there is no memory or file
/// space, which stops the recording.
ThreadState* attach_thread() noexcept;

/// Whether the caller is a child that shares its parent's memory (vfork, clone with CLONE_VM), or system calls are
/// forbidden, so that this is unknown.
bool shares_memory_with_parent() noexcept;

/// What save_private_blocks() has left in private memory.
struct PrivateBlocks {
  const char* failure = nullptr;       ///< why a block could not be saved; null: none has failed
  bool of_unfinished_threads = false;  ///< blocks of threads that still run, or that a signal handler has interrupted
};

/// Saves the staging blocks that are private memory (Stream::save_private_block): those of the calling thread, which
/// has entered the state `entered`, and of threads that have ended. `executes`: before an exec, which may fail. Else
/// the calling thread's own blocks are moved into the file, because it may still have events.
PrivateBlocks save_private_blocks(const ThreadState& entered, bool executes) noexcept;

/// The first element of the list of all states.
const ThreadState* first_thread_state() noexcept;

/// Waits until every other thread has left the event in which it is now, for at most 100 ms in all: a thread may be
/// stopped, or have died there.
void wait_until_others_left() noexcept;

/// Writes the owner's record (TextKind::kThread) to the trace if a longjmp abandoned attach_thread() before the
/// record was written.
void announce_if_abandoned(ThreadState& state) noexcept;

/// The nested state to use while `outer` is busy. Returns null if the nesting is too deep or there is no memory.
ThreadState* nested_state(ThreadState& outer) noexcept;

/// Repairs a state whose owner was inside the recorder and has not returned: it left by longjmp, or has died. May be
/// called twice.
void recover_abandoned_state(ThreadState& state) noexcept;

/// Whether `busy` was certainly left behind by a longjmp. The result is false in doubt; the owner's events then use
/// the nested state for a while. `stack_pointer` is that of the caller. A stack pointer above `busy` is proof only on
/// the thread's own stack: a handler may have switched to a fiber with a higher stack, and will return into the
/// interrupted event.
bool busy_is_stale(const ThreadState& state, StackPointer stack_pointer) noexcept;

/// A thread's name is usually set soon after its start. It is checked when each of the first four runs begins (with
/// several threads, these have 1, 2, 4 and 8 events), then only with each new block and every 10 ms, so that system
/// calls do not become more frequent with more events.
inline constexpr std::uint32_t kMaxNameInterval = 16;

/// Commits the thread's name if it has changed.
void check_thread_name(ThreadState& state, Ticks now) noexcept;

/// Registers a fork handler with libc. In the child, before fork returns, it detaches the unfinished events of the
/// thread that called fork from the parent's trace. Call this once per process and only at its start, because libc
/// takes a lock.
void detach_at_fork() noexcept;

/// In a forked child: clears the list of states, whose streams are the parent's.
void forget_threads() noexcept;

}  // namespace heapprof::recorder
