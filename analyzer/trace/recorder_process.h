// Is the process that writes a trace still at it? A header names its writer by pid, start time, boot and
// pid namespace, so neither a reused pid nor a trace from another machine is mistaken. One in a container is found
// among the processes that can be seen from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/trace/files/input_file.h"
#include "common/trace_format.h"

namespace heapprof::trace {

enum class Writer {
  kGone,       ///< no such process here
  kRecording,  ///< it runs, and has the trace mapped
  kExecuted,   ///< the process lives on, as another program
};

/// `header` is believed only where the system agrees with it.
Writer find_writer(const FileHeader& header, const InputFile& trace);

/// The process of `header` as /proc names it here, also when it counts itself in another pid namespace; 0: it does
/// not run here any more, or can't be seen.
std::uint32_t visible_pid(const FileHeader& header);

/// The trace's clock now, in ticks since the trace's start; none when this machine cannot read that clock.
std::optional<std::uint64_t> ticks_now(const FileHeader& header) noexcept;

}  // namespace heapprof::trace
