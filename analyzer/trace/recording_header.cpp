#include "analyzer/trace/recording_header.h"

#include "analyzer/trace/files/input_file.h"
#include "analyzer/trace/files/read_header.h"
#include "analyzer/trace/recorder_process.h"
#include "analyzer/trace/trace_file.h"
#include "common/trace_header.h"

namespace heapprof::trace {

RecordingHeader read_recording_header(const std::string& path) {
  const InputFile input(path);
  RecordingHeader result;
  if (read_header(input, result.header) == sizeof result.header && is_recorder_header(result.header)) {
    result.recorder = find_recorder(result.header, input);
    return result;
  }
  const TraceFile file(path);
  result.header = file.header();
  result.recorder = file.recorder();
  result.is_damaged = file.compacted() == nullptr;
  return result;
}

}  // namespace heapprof::trace
