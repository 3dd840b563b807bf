#include "preload/recorder/trace/recording.h"

#include "preload/base/text.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/process/log.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

constinit State g_state = State::kNew;
constinit TraceStorage g_trace;
constinit std::uint64_t g_pause = 0;

void write_end_time(FileHeader& header) noexcept {
  const Ticks now = g_clock.now();
  header.end_ticks = tick_count(now);
  const std::uint64_t monotonic_ns = sys::clock_ns(CLOCK_MONOTONIC);
  header.end_monotonic_ns = monotonic_ns != 0 ? monotonic_ns : g_clock.monotonic_ns_at(now);
  header.end_realtime_ns = sys::clock_ns(CLOCK_REALTIME);
}

void stop(Failure reason) noexcept {
  if (in_forked_child()) return;  // a child that was forked in the middle of its parent's event
  if (!change_state(State::kOn, State::kOff)) return;
  set_guard_bit(kGuardStopped);
  FileHeader& header = *g_trace.header();
  Text(header.stop_reason).add(reason);
  write_end_time(header);
  mark_end(header, EndKind::kStopped);
  char message[256];
  log(LogLevel::kWarn,
      Text(message).add("recording stopped: ").add(reason).add("; the events until then are in ").c_str(),
      g_trace.path());
}

}  // namespace heapprof::recorder
