// What only the whole trace tells: the call tree, the clock, the end, what is missing. Known when a trace has been
// read once; kept in indexes and compacted traces, so that a question about a part need not read everything first.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/trace/files/byte_stream.h"
#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/events/tick_clock.h"

namespace heapprof::trace {

struct Whole {
  Definitions definitions;
  std::vector<std::uint32_t> node_ids;  ///< of the trace, by dense index; as many as definitions.node_count
  Damage damage;                        ///< found within streams; TraceFile::damage() comes on top
  TickClock clock;
  std::uint64_t last_time = 0;          ///< ticks to which the recording is known to have gone on
  std::uint64_t records = 0;            ///< merged events that reading it gives
  std::uint64_t events = 0;             ///< what a report of everything calls events
  std::uint64_t bad_events = 0;         ///< made no sense: left out
  std::uint64_t unfinished = 0;         ///< calls that began and never ended
  bool paused_once = false;
};

void save(const Damage& damage, ByteWriter& out);
Damage load_damage(ByteReader& in);

void save(const Whole& whole, ByteWriter& out);
/// Throws FormatError.
Whole load_whole(ByteReader& in, const FileHeader& header);

}  // namespace heapprof::trace
