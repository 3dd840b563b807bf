// Moments that a user gives, in nanoseconds and ticks.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/replay/selection.h"
#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// The first tick that is not before `ns`.
std::uint64_t ticks_at(const trace::TickClock& clock, std::uint64_t ns);

/// Nanoseconds since the start of the recording.
std::uint64_t ns_of(const Moment& moment, std::uint64_t duration_ns);

/// The same, at most `duration_ns`. Throws SelectionError when the moment is more than half a percent of the duration
/// after the end: reports round the duration, so a moment that rounds to the end means the end. `option`: for the
/// message.
std::uint64_t ns_within(const Moment& moment, std::uint64_t duration_ns, const char* option,
                        const trace::TraceFile& file);

/// All digits of a time, in the form that options accept: "1.004321ms".
std::string exact_time(std::uint64_t ns);

/// The moment as the user gave it, else `ns`.
std::string text_of(const Moment& moment, std::uint64_t ns);

}  // namespace heapprof::replay
