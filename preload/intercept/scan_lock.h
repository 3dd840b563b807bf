// Lets one thread at a time scan the loader's list, and remembers whether a scan was missed.
//
// Threads that load objects exclude each other by the loader's lock. But the loader also allocates thread-local
// storage, at any time and without that lock, and whoever does that may scan too. It may be descheduled in the middle
// while another thread loads an object, which must be scanned before its code runs. So that thread waits. A scan
// waits for nobody, so the wait ends, except when a longjmp abandoned the scan: then it ends after 200 ms, once.
#pragma once

namespace heapprof::intercept {

/// Returns false when this thread is scanning already, or another thread's scan did not end in time.
/// Async-signal-safe.
bool begin_scan() noexcept;

/// Call it once for each begin_scan() that returned true.
void end_scan() noexcept;

/// Notes that objects may have been loaded, and have run, that no scan has seen.
void note_missed_scan() noexcept;

bool a_scan_was_missed() noexcept;

/// The same, and forgets it.
bool take_missed_scan() noexcept;

}  // namespace heapprof::intercept
