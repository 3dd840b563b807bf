// What is damaged or missing in a trace, and what that means for the figures, as sentences for people.
#pragma once

#include <cstdint>

#include "analyzer/model/profile.h"
#include "analyzer/trace/compact/trace_summary.h"
#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/trace_file.h"
#include "common/trace_format.h"

namespace heapprof::replay {

struct IntegrityInput {
  const trace::TraceFile& file;
  const trace::Damage& stream_damage;  ///< found within streams
  const trace::Definitions& definitions;
  bool has_file_damage = false;  ///< stream_damage has what was found while indexing, too
  std::uint64_t bad_events = 0;  ///< without an address
  std::uint64_t unfinished = 0;  ///< calls that did not return
  bool paused_once = false;
  std::uint64_t lost_nodes = 0;         ///< call-tree nodes without a usable definition
  std::uint64_t lost_python_codes = 0;  ///< code objects of Python that are used but not defined
  bool symbols_damaged = false;         ///< the embedded symbols
  bool threads_merged = false;          ///< the threads exceeded max_threads()
  bool thread_names_left_out = false;   ///< the names of threads exceeded max_name_bytes()
};

/// Sets end_status and stop_reason.
void describe_end(const FileHeader& header, model::Integrity& integrity);

/// Precondition: profile.recording and profile.heap are final.
model::Integrity integrity_of(const IntegrityInput& input, const model::Profile& profile);

/// The same for a command that replays the whole recording, but makes no profile: without the notes about figures.
/// `summary`: of that replay.
model::Integrity integrity_of(const trace::TraceFile& file, const trace::TraceSummary& summary);

}  // namespace heapprof::replay
