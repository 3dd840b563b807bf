// A copy of a trace without the arguments of the recorded program: what `heapprof bundle` writes unless it is given
// --command-line. Readers find the same events and the same damage in it.
//
// In a recording, zeros replace the arguments. The frame that has them is compressed anew and keeps its place and
// length: its header grows by what its payload shrinks (FrameHeader::header_bytes).
//
// Bytes that no reader decodes may contain the arguments too: slots of earlier blocks in a staging block, frames that
// are damaged or were never finished. Those slots become zeros. Of other bytes readers need to know whether they are
// zero, so each that is not becomes 0xff.
//
// In a compacted trace, only the summary has the arguments. It is written anew with the size that it had.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "analyzer/trace/trace_file.h"

namespace heapprof::trace {

/// Calls `write` for the copy, piece by piece, without the embedded symbols; returns its size. Extents and sections
/// of unknown kinds are left out, because they could contain the arguments. Precondition: nobody writes to the trace.
/// Throws TraceError.
std::uint64_t copy_without_arguments(const TraceFile& trace, const std::function<void(std::string_view)>& write);

}  // namespace heapprof::trace
