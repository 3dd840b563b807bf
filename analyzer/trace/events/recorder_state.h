// What is known of the process that records a trace, and up to which time its events are read.
#pragma once

#include <cstdint>
#include <limits>

namespace heapprof::trace {

enum class RecorderState {
  kGone,       ///< the process does not run on this machine, or writes another file, of which the trace is a copy
  kRecording,  ///< it runs and has the trace mapped
  kExecuted,   ///< it runs another program now
};

/// TraceFile::cut_ticks() of a trace that is read to its end.
inline constexpr std::uint64_t kNoCut = std::numeric_limits<std::uint64_t>::max();

}  // namespace heapprof::trace
