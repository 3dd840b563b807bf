#include "analyzer/trace/compact/origin.h"

#include <iterator>

#include "analyzer/trace/compact/trace_summary.h"

namespace heapprof::trace {
namespace {

/// By their numbers in the file.
constexpr RecorderState kStates[] = {RecorderState::kGone, RecorderState::kExecuted, RecorderState::kRecording};

}  // namespace

void save(const Origin& origin, ByteWriter& out) {
  save(origin.damage, out);
  out.number(origin.recorder == RecorderState::kExecuted ? 1 : origin.recorder == RecorderState::kRecording ? 2 : 0);
  out.number(origin.streams);
  out.number(origin.bytes);
  out.number(origin.quantum);
  if (origin.recorder == RecorderState::kRecording) out.number(origin.cut_ticks);
}

Origin load_origin(ByteReader& in) {
  constexpr std::uint64_t kMaxStreams = 1 << 20;
  Origin origin;
  origin.damage = load_damage(in);
  origin.recorder = kStates[in.number_up_to(std::size(kStates) - 1)];
  origin.streams = static_cast<std::uint32_t>(in.number_up_to(kMaxStreams));
  origin.bytes = in.number();
  origin.quantum = in.number();
  if (origin.quantum == 0) throw FormatError("its unit of time is 0 ticks");
  if (origin.recorder == RecorderState::kRecording) origin.cut_ticks = in.number();
  in.expect_end();
  return origin;
}

}  // namespace heapprof::trace
