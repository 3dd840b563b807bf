// The state of the recording, and its end.
//
//   kNew -> kStarting -> kOn -> kOff        a forked child: kOn -> kOff, or -> kStarting with HEAPPROF_CHILDREN
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
/// Changes the state from `from` to `to`. False: it was another one, and stays.
inline bool change_state(State from, State to) noexcept {
  return __atomic_compare_exchange(&g_state, &from, &to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/// Bit 0: whether recording is paused. Above it: when that changed last, in ticks, so that the times of changes are
/// in the order of the changes.
extern std::uint64_t g_pause;

inline bool paused() noexcept { return (__atomic_load_n(&g_pause, __ATOMIC_RELAXED) & 1) != 0; }

/// Writes the time at which the recording ends, by both clocks.
void write_end_time(FileHeader& header) noexcept;

/// Marks in the header how the recording ended, after the time and the reason have been written.
inline void mark_end(FileHeader& header, EndKind kind) noexcept {
  __atomic_store(&header.end_kind, &kind, __ATOMIC_RELEASE);
}

/// Ends the recording for good. `reason` is written to the header and, once, to the log. Any thread, also in signal
/// handlers.
void stop(Failure reason) noexcept;

}  // namespace heapprof::recorder
