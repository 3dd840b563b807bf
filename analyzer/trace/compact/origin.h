// What a compacted trace keeps of its original file besides the header: damage, recorder, number of streams, size.
#pragma once

#include <cstdint>

#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/events/recorder_state.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::trace {

/// Contents of the section kOrigin.
struct Origin {
  Damage damage;                                  ///< TraceFile::damage() of the original
  RecorderState recorder = RecorderState::kGone;  ///< when the original was opened
  std::uint64_t cut_ticks = kNoCut;               ///< of the original, which was still being written; else kNoCut
  std::uint32_t streams = 0;
  std::uint64_t bytes = 0;    ///< size of the original
  std::uint64_t quantum = 1;  ///< ticks; times in chunks are multiples of it
};

void save(const Origin& origin, ByteWriter& out);
/// Throws FormatError.
Origin load_origin(ByteReader& in);

}  // namespace heapprof::trace
