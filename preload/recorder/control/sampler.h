// Timeline samples: resident memory, how much of it is shared, and a reading of two clocks from which the reader
// computes the length of a tick. The thread that has an event when a sample is due takes it: about every 10 ms, and
// more often in the first few milliseconds, so that short recordings have samples too. While the program is idle,
// none are taken.
#pragma once

#include <cstdint>

#include "preload/recorder/thread/thread_state.h"

namespace heapprof::recorder {

/// Opens /proc/self/statm, which samples read. Called once per trace.
void start_sampler() noexcept;

/// In a forked child: closes the file, which describes the parent.
void close_sampler() noexcept;

/// Stops the samples, because system calls are forbidden.
void stop_sampler() noexcept;
/// Resumes the samples, because the kernel has refused to forbid system calls.
void resume_sampler() noexcept;

/// When the next sample is due, in ticks. A thread that takes a sample first sets this to the latest time of the next
/// sample, and afterwards to the time at which that sample is due. So no lock is held: a thread that dies during a
/// sample, or leaves by longjmp, delays the next sample by one interval.
extern std::uint64_t g_next_sample;

/// Resident bytes of the latest sample; 0 before the first one, and when they could not be read.
extern std::uint64_t g_sampled_resident_bytes;

/// Commits a sample to the thread's stream and sets when the next one is due. Does nothing while system calls are
/// forbidden.
void take_sample(ThreadState& thread) noexcept;

/// The latest time of the next sample after a sample at `now`.
Ticks latest_next_sample(Ticks now) noexcept;

/// Takes a sample if one is due and no other thread takes it. Returns whether it took a sample.
inline bool sample_if_due(ThreadState& thread, Ticks now) noexcept {
  std::uint64_t due = __atomic_load_n(&g_next_sample, __ATOMIC_RELAXED);
  if (now < Ticks{due}) [[likely]]
    return false;
  if (!__atomic_compare_exchange_n(&g_next_sample, &due, tick_count(latest_next_sample(now)), false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED))
    return false;
  take_sample(thread);
  return true;
}

}  // namespace heapprof::recorder
