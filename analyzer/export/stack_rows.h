// Export for databases that hold the recordings of many hosts: one row for each call stack of a recording, with
// everything that identifies the recording, so that rows of any hosts and builds can be put together.
//
//   format_version, recording, host, program, build_id, pid, start_realtime_ns, duration_ns, exported_realtime_ns,
//   ended_by, complete, labels
//   kind, stacks, stack_hash, site, frames
//   the costs by the names of `report --json`
//
// The sums over the rows of a recording are its totals: stacks that are left out are one row of kind "rest".
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "analyzer/base/labels.h"
#include "analyzer/export/row_writer.h"
#include "analyzer/model/profile.h"

namespace heapprof::exporter {

/// What the rows of one recording have in common. Text is clean UTF-8.
struct RecordingColumns {
  std::string recording;  ///< identifies it: that of its trace file
  std::string host;
  std::string program;   ///< path
  std::string build_id;  ///< of the program; empty: none
  std::uint32_t pid = 0;
  std::uint64_t start_realtime_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t exported_realtime_ns = 0;  ///< of rows of one recording, those that were exported last count
  std::string ended_by;
  bool complete = true;
  Labels labels;
};

/// A stack, or the sum of those that are left out, which has no frames.
struct StackRow {
  std::uint64_t stacks = 1;  ///< whose costs are in the row: several with the same names, or all that are left out
  std::string names;         ///< of the frames, innermost first, each with a line feed; empty: "rest"
  std::string site;          ///< function of the call site; empty: unknown
  model::Costs costs;
};

/// Identifies a stack by the names of its frames, whatever host and build: XXH3 (64 bits, seed 0) of StackRow::names.
std::string stack_hash(const std::string& names);

class StackRowWriter {
 public:
  StackRowWriter(RowFormat format, Sink& output);
  void write(const RecordingColumns& recording, std::span<const StackRow> rows);

 private:
  RowWriter row_;
};

}  // namespace heapprof::exporter
