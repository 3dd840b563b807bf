// Which fast path the events of this process take. It depends on whether the process has one thread, and on whether
// frames of Python are recorded.
#pragma once

namespace heapprof::recorder {

/// Points to a nonzero value while the process has had only one thread, according to libc; afterwards to
/// kMultiThreaded, which is 0. From then on events of a run have one time only on pages that the stream owns
/// (clock/page_owners.h). It changes only in this order, and never back, whichever threads attach at once:
///
///   kNoThread (0, too)  ->  libc's variable  ->  kMultiThreaded      or kNoThread -> kMultiThreaded
extern const char* g_single_threaded [[gnu::visibility("hidden")]];
extern const char kNoThread [[gnu::visibility("hidden")]];
extern const char kMultiThreaded [[gnu::visibility("hidden")]];

/// Determines the fast path of allocations. Points to kPythonFrames, which is 0, once frames of Python are recorded;
/// until then it equals g_single_threaded, before which it changes.
extern const char* g_allocation_mode [[gnu::visibility("hidden")]];
extern const char kPythonFrames [[gnu::visibility("hidden")]];

/// The same for frees: points to kPythonFrames after watch_frees().
extern const char* g_free_mode [[gnu::visibility("hidden")]];

/// From now on python::block_freed() is called for every free. May be called again, from any thread.
void watch_frees() noexcept;

inline bool is_single_threaded() noexcept { return *__atomic_load_n(&g_single_threaded, __ATOMIC_RELAXED) != 0; }

/// Records that the process has, or has had, more than one thread. May be called again, also after a signal handler
/// has left a call by longjmp.
void set_multi_threaded() noexcept;

/// Call it for each thread that attaches, before it has events. `libc_variable`: is nonzero while libc knows of one
/// thread; null: libc has none. It counts only if no other thread has attached before: libc does not know threads
/// that the program has created by clone().
void note_attaching_thread(const char* libc_variable) noexcept;

/// In a forked child, before a thread attaches. Returns whether events may have used owners of pages.
bool forget_attached_threads() noexcept;

}  // namespace heapprof::recorder
