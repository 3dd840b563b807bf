// Timeline samples: resident memory, and the pair of clocks from which the reader learns how long a tick
// is. Taken by whichever thread has an event when one is due, about every 10 ms (sooner in the first few
// milliseconds, so that short runs have some too); an idle program takes none.
#pragma once

#include <cstdint>

#include "preload/recorder/thread/thread_state.h"

namespace heapprof::recorder {

/// Opens what samples read. Once a trace.
void start_sampler() noexcept;

/// In a forked child: closes what samples read, which is the parent's.
void abandon_sampler() noexcept;

/// No system call from here on; and again, when the host could not forbid them.
void stop_sampler() noexcept;
void resume_sampler() noexcept;

/// When the next sample is due, in ticks. Whoever takes one moves it on before and sets it after. Nobody holds it
/// meanwhile: a thread that dies in the middle of a sample, or leaves by longjmp, delays the next one by an interval.
extern std::uint64_t g_next_sample;

/// Commits a sample to the thread's stream and sets when the next is due. Does neither where system calls are
/// forbidden.
void take_sample(ThreadState& state) noexcept;

/// The longest interval after `now`.
std::uint64_t latest_next_sample(std::uint64_t now) noexcept;

/// Takes a sample if one is due and no other thread takes it; true when it did.
inline bool sample_if_due(ThreadState& state, std::uint64_t now) noexcept {
  std::uint64_t due = __atomic_load_n(&g_next_sample, __ATOMIC_RELAXED);
  if (now < due) [[likely]] return false;
  if (!__atomic_compare_exchange_n(&g_next_sample, &due, latest_next_sample(now), false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED))
    return false;
  take_sample(state);
  return true;
}

}  // namespace heapprof::recorder
