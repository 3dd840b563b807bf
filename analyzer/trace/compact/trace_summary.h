// The trace summary: what is known only after the whole trace was read once (call tree, clock, end, damage).
//
// Indexes and compacted traces contain it, so that a slice of time can be analyzed without reading everything first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/files/byte_stream.h"

namespace heapprof::trace {

/// What a replay of the whole trace counts apart from stacks: 'heapprof info' needs no more.
struct Overview {
  struct Thread {
    std::uint32_t tid = 0;
    std::string name;
    std::uint64_t start_ticks = 0;
    std::uint64_t allocations = 0;
    std::uint64_t allocated_bytes = 0;
    bool is_others = false;      ///< all threads beyond max_threads()
    bool name_left_out = false;  ///< one of its names exceeded max_name_bytes()
  };
  static constexpr std::size_t kMaxMarks = 10'000;  ///< that a replay keeps
  enum class MarkKind : std::uint8_t { kUser, kPaused, kResumed };
  struct Mark {
    std::uint64_t ticks = 0;
    MarkKind kind = MarkKind::kUser;
    std::string text;
  };
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t frees = 0;
  std::uint64_t failed = 0;
  std::uint64_t unmatched_frees = 0;
  std::uint64_t implied_frees = 0;
  std::uint64_t snapshots = 0;  ///< of resident pages
  std::vector<Thread> threads;
  std::vector<Mark> marks;  ///< in order of time
  bool all_marks = true;    ///< false: there are more than a replay keeps
};

struct TraceSummary {
  Definitions definitions;
  std::vector<std::uint32_t> node_ids;  ///< of the trace, by dense index; definitions.node_count entries
  std::uint32_t nodes_left_out = 0;     ///< the last ones, beyond max_summary_nodes(); never of a summary to be saved
  Damage damage;                        ///< found within streams; TraceFile::damage() is not included
  TickClock clock;
  std::uint64_t last_time = 0;   ///< ticks: the last known time of the recording
  std::uint64_t records = 0;     ///< merged events of the whole trace
  std::uint64_t events = 0;      ///< allocations, frees and failures: HeapTotals::events()
  std::uint64_t bad_events = 0;  ///< without an address, ignored
  std::uint64_t unfinished = 0;  ///< calls that began and did not return
  bool paused_once = false;
  std::optional<Overview> overview;  ///< none: of a compacted trace
};

void save(const Damage& damage, ByteWriter& out);
/// Throws FormatError.
Damage load_damage(ByteReader& in);

void save(const TraceSummary& summary, ByteWriter& out);
/// `header`: of the trace, for the clock's rate. `file_bytes`: TraceFile::bytes(), for the limits of threads and
/// nodes. Throws FormatError.
TraceSummary load_summary(ByteReader& in, const FileHeader& header, std::uint64_t file_bytes);

/// The summary in the last section of its kind, with what the trace says about Python. Precondition: there is one.
/// Throws FormatError.
TraceSummary read_summary(const InputFile& input, const SectionTable& sections, const FileHeader& header,
                          std::uint64_t file_bytes);

}  // namespace heapprof::trace
