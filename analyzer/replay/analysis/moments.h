// Moments that a user gives, in nanoseconds and ticks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "analyzer/replay/selection.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::replay {

/// When the user marked the recording, and with which text.
struct MarkedTime {
  std::uint64_t ns = 0;
  std::string text;
};

/// The time of the mark with this text. Throws SelectionError, which lists the marks or times, when there is none or
/// more than one.
std::uint64_t ns_of_mark(const Moment& moment, std::span<const MarkedTime> marks, const trace::TraceFile& file);

/// Nanoseconds since the start of the recording. Precondition: the moment is not that of a mark.
std::uint64_t ns_of(const Moment& moment, std::uint64_t duration_ns);

/// The same, at most `duration_ns`. Throws SelectionError when the moment is more than half a percent of the duration
/// after the end: reports round the duration, so a moment that rounds to the end means the end. `option`: for the
/// message.
std::uint64_t ns_within(const Moment& moment, std::uint64_t duration_ns, const char* option,
                        const trace::TraceFile& file);

/// All digits of a time, in the form that options accept: "1.004321ms".
std::string exact_time(std::uint64_t ns);

/// The moment's name; without one, the option with the moment as the user gave it, else with `ns`.
std::string text_of(const Moment& moment, const char* option, std::uint64_t ns);

}  // namespace heapprof::replay
