// Lets one thread at a time scan the loader's list, and remembers whether a scan was missed.
//
// Threads that load objects exclude each other by the loader's lock. But the loader also allocates thread-local
// storage, at any time and without that lock, and scans then too. The kernel may deschedule that scan while
// another thread loads an object, which must be scanned before its code runs. So the loading thread waits. A scan
// never waits, so the wait is short. If a longjmp abandoned the scan, the first wait ends after 200 ms, and no other
// thread waits.
#pragma once

namespace heapprof::intercept {

/// Returns false when this thread is scanning already, or another thread's scan did not end in time.
/// Async-signal-safe.
bool begin_scan() noexcept;

/// Call it once for each begin_scan() that returned true.
void end_scan() noexcept;

/// Stores that objects may have been loaded, and their code executed, without a scan.
void note_missed_scan() noexcept;

bool a_scan_was_missed() noexcept;

/// Returns a_scan_was_missed(), and resets it.
bool take_missed_scan() noexcept;

}  // namespace heapprof::intercept
