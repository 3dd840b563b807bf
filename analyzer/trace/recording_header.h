// The header of a recording, read without an index of its frames: what a command needs that names many recordings, or
// leaves the reading to another process.
#pragma once

#include <string>

#include "analyzer/trace/events/recorder_state.h"
#include "common/trace_format.h"

namespace heapprof::trace {

struct RecordingHeader {
  FileHeader header;
  RecorderState recorder = RecorderState::kGone;
  bool is_damaged = false;  ///< `header` has only what could be recovered
};

/// Reads the header of a trace, compacted or not. Throws TraceError if `path` is not a trace that can be read.
RecordingHeader read_recording_header(const std::string& path);

}  // namespace heapprof::trace
