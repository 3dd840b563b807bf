// Finds the process that records a trace.
//
// The header names it by pid, start time, boot id and pid namespace, so neither a reused pid nor a trace from another
// machine is mistaken for it. A process in a container is found by its pid in this program's namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/trace/events/recorder_state.h"
#include "analyzer/trace/files/input_file.h"
#include "common/trace_format.h"

namespace heapprof::trace {

/// What the process of `header` does now. Reads /proc. A process that this user may not inspect counts as recording.
RecorderState find_recorder(const FileHeader& header, const InputFile& trace);

/// If `trace` is a copy of a recording that is still being written: the path of the original, as its process sees it.
/// Empty: it is no copy, or that is not known.
std::string find_original(const FileHeader& header, const InputFile& trace);

/// The pid of the process of `header` in this program's pid namespace; 0: it has ended, or is not visible from here.
std::uint32_t visible_pid(const FileHeader& header);

/// The trace's clock now, in ticks since the start of the trace; nullopt when this machine does not have that clock.
std::optional<std::uint64_t> ticks_now(const FileHeader& header) noexcept;

/// Sets the rate of the clock of a recording that is being written, if the recorder did not know it: virtual machines
/// often do not say it. It is the mean since the recording began.
void complete_clock_rate(FileHeader& header) noexcept;

}  // namespace heapprof::trace
