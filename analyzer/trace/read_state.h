// What the decoders of a trace's streams share while it is read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analyzer/trace/asked_frames.h"
#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/files/input_file.h"
#include "analyzer/trace/frame_reader.h"
#include "analyzer/trace/trace_file.h"
#include "common/trace_format.h"

namespace heapprof::trace {

struct ReadState {
  explicit ReadState(const TraceFile& file)
      : ReadState(file.input(), file.header(), file.bytes(), file.cut_ticks()) {}
  ReadState(const InputFile& of, const FileHeader& header, std::uint64_t bytes, std::uint64_t cut)
      : input(of), file_id(header.file_id), tail_kill_safe((header.flags & kHeaderTailNotKillSafe) == 0),
        file_bytes(bytes), cut_ticks(cut) {}

  const InputFile& input;
  const std::uint64_t file_id;
  const bool tail_kill_safe;  ///< every stream has a staging block
  std::uint64_t file_bytes;   ///< TraceFile::bytes(): for the limits in limits.h
  std::uint64_t cut_ticks;    ///< later events are not part of the trace
  NodeIndex node_index;
  Definitions definitions;
  bool definitions_known = false;      ///< from a trace summary: definitions in the streams are skipped
  std::unique_ptr<AskedFrames> asked;  ///< everything else may be left out; null: all events are asked for
  Damage damage;                       ///< found within streams; TraceFile::damage() is not included
  std::uint64_t last_time = 0;         ///< ticks: of the last event that was merged
  std::uint64_t frame_bytes_read = 0;  ///< of TraceFile::frame_bytes()
  std::uint64_t events_left_out = 0;   ///< of frames of which only what was asked for was taken

  // Buffers, and the memory that counts towards the limits in limits.h.
  std::vector<std::vector<MergedEvent>> spare_buffers;
  FrameReader frame_reader;
  std::uint64_t decoded_bytes = 0;  ///< decoded events of all streams, and the texts of their current blocks
  std::uint64_t module_bytes = 0;   ///< text_cost_bytes() of all modules so far
  std::uint64_t python_bytes = 0;   ///< likewise of the texts about Python
  bool nodes_exceed_limit = false;  ///< and `damage` has a note about it
};

}  // namespace heapprof::trace
