// What the decoders of a trace's streams share while it is read.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::trace {

struct ReadState {
  explicit ReadState(const TraceFile& of) : file(of) {}

  const TraceFile& file;
  NodeIndex node_index;
  Definitions definitions;
  bool definitions_known = false;      ///< from a trace summary: definitions in the streams are skipped
  Damage damage;                       ///< found within streams; TraceFile::damage() is not included
  std::uint64_t last_time = 0;         ///< ticks: of the last event that was merged
  std::uint64_t frame_bytes_read = 0;  ///< of TraceFile::frame_bytes()

  // Buffers, and the memory that counts towards the limits in limits.h.
  std::vector<std::vector<MergedEvent>> spare_buffers;
  std::vector<std::uint8_t> frame_buffer;
  std::vector<std::uint8_t> column_buffer;
  std::uint64_t decoded_bytes = 0;  ///< decoded events of all streams, and the texts of their current blocks
  std::uint64_t module_bytes = 0;   ///< text_cost_bytes() of all modules so far
};

}  // namespace heapprof::trace
