#include "analyzer/trace/frame_list.h"

#include <algorithm>
#include <limits>

namespace heapprof::trace {
namespace {

constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMinFrameBytes = 4;  // in the list

/// The values of a field of all frames, which take 64 bits or 32.
template <typename Value>
void save_column(const std::vector<FrameRef>& frames, Value FrameRef::*field, ByteWriter& out) {
  std::uint64_t last = 0;
  for (const FrameRef& frame : frames) {
    out.signed_number(static_cast<std::int64_t>(std::uint64_t{frame.*field} - last));
    last = frame.*field;
  }
}

template <typename Value>
void load_column(ByteReader& in, Value FrameRef::*field, std::vector<FrameRef>& frames) {
  std::uint64_t last = 0;
  for (FrameRef& frame : frames) {
    last += static_cast<std::uint64_t>(in.signed_number());
    if (last > std::numeric_limits<Value>::max()) throw FormatError("its list of frames has a wrong number");
    frame.*field = static_cast<Value>(last);
  }
}

void check_frames(const std::vector<FrameRef>& frames, std::uint64_t trace_bytes) {
  std::uint32_t last_sequence = 0;
  for (const FrameRef& frame : frames) {
    const bool within = frame.offset <= trace_bytes && frame.bytes <= trace_bytes - frame.offset;
    if (!within || frame.bytes < sizeof(FrameHeader) || frame.bytes > kMaxExtentBytes ||
        frame.sequence < last_sequence)
      throw FormatError("its list of frames has a wrong frame");
    last_sequence = frame.sequence;
  }
}

}  // namespace

void save(const FrameList& list, ByteWriter& out) {
  out.number(list.modified_ns);
  out.number(list.fingerprint);
  out.number(list.streams.size());
  for (const StreamIndex& stream : list.streams) {
    out.number(raw(stream.id));
    out.number(stream.has_staging ? 1 : 0);
    out.number(stream.staging_sequence);
    out.number(stream.staging_offset);
    out.number(stream.staging.size());
    out.number(stream.frames.size());
    save_column(stream.frames, &FrameRef::offset, out);
    save_column(stream.frames, &FrameRef::first_time, out);
    save_column(stream.frames, &FrameRef::sequence, out);
    save_column(stream.frames, &FrameRef::bytes, out);
  }
}

FrameList load_frame_list(ByteReader& in, std::uint64_t trace_bytes) {
  FrameList list;
  list.modified_ns = in.number();
  list.fingerprint = in.number();
  // Each has a frame or a staging block in the trace.
  static_assert(sizeof(StagingHeader) <= sizeof(FrameHeader));
  list.streams.resize(in.number_up_to(std::min<std::uint64_t>(in.left(), trace_bytes / sizeof(StagingHeader))));
  std::uint64_t least_id = 0;
  std::uint64_t bytes_left = trace_bytes;  // staging blocks do not overlap
  for (StreamIndex& stream : list.streams) {
    const std::uint64_t id = in.number_up_to(kMax32);
    if (id < least_id) throw FormatError("its list of frames has a wrong stream");
    least_id = id + 1;
    stream.id = static_cast<StreamId>(id);
    stream.has_staging = in.number_up_to(1) != 0;
    stream.staging_sequence = in.number32();
    stream.staging_offset = in.number_up_to(trace_bytes);
    const std::uint64_t slots = in.number_up_to(bytes_left / sizeof(Slot));
    bytes_left -= slots * sizeof(Slot);
    stream.staging.resize(static_cast<std::size_t>(slots));
    stream.frames.resize(in.count(kMinFrameBytes));
    load_column(in, &FrameRef::offset, stream.frames);
    load_column(in, &FrameRef::first_time, stream.frames);
    load_column(in, &FrameRef::sequence, stream.frames);
    load_column(in, &FrameRef::bytes, stream.frames);
    check_frames(stream.frames, trace_bytes);
  }
  in.expect_end();
  return list;
}

}  // namespace heapprof::trace
