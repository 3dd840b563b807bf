// The list of the frames of a recording, for files beside it: whoever has the list need not read all frame headers.
//
//   list = modified_ns fingerprint count stream*
//   stream = id staging count offset* first_time* sequence* bytes*     each the difference from the one before
#pragma once

#include <cstdint>

#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::trace {

void save(const FrameList& list, ByteWriter& out);
/// `trace_bytes`: TraceFile::bytes(), which no frame exceeds. Throws FormatError.
FrameList load_frame_list(ByteReader& in, std::uint64_t trace_bytes);

}  // namespace heapprof::trace
