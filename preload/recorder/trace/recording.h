// The state of the recording, and its end.
//
//   process       kNew -> kStarting -> kOn -> kOff    or kNew -> kStarting -> kOff, if it is not recorded
//   forked child  kOn -> kStarting -> kOff            or kOn -> kStarting -> kOn, with HEAPPROF_CHILDREN
#pragma once

#include <cstdint>

#include "preload/recorder/clock/time_types.h"
#include "preload/recorder/trace/trace_storage.h"

namespace heapprof::recorder {

enum class State : std::uint32_t { kNew, kStarting, kOn, kOff };

extern State g_state;
/// The process's trace. It has a header while the state is kOn.
extern TraceStorage g_trace;

inline State state() noexcept {
  State state;
  __atomic_load(&g_state, &state, __ATOMIC_ACQUIRE);
  return state;
}
inline void set_state(State state) noexcept { __atomic_store(&g_state, &state, __ATOMIC_RELEASE); }
/// Changes the state from `from` to `to`. Returns false, and changes nothing, if the state is not `from`.
inline bool change_state(State from, State to) noexcept {
  return __atomic_compare_exchange(&g_state, &from, &to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/// Bit 0: whether recording is paused. The other bits: the time of the last change, in ticks, so that the times of
/// changes are in the order of the changes.
extern std::uint64_t g_pause;

inline bool paused() noexcept { return (__atomic_load_n(&g_pause, __ATOMIC_RELAXED) & 1) != 0; }

/// Writes the current time, by each clock, as the end of the recording.
void write_end_time(FileHeader& header) noexcept;

/// Marks in the header how the recording ended, after the time and the reason have been written.
inline void mark_end(FileHeader& header, EndKind kind) noexcept {
  __atomic_store(&header.end_kind, &kind, __ATOMIC_RELEASE);
}

/// Ends the recording for good. `reason` is written to the header and, once, to the log. May be called from any
/// thread and from signal handlers.
void stop(Failure reason) noexcept;

}  // namespace heapprof::recorder
