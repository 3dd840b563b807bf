// Rewrites a trace as a compacted trace: what `heapprof compact` does.
//
//   1. Replay the trace for its summary, which is written first.
//   2. Replay it again, which puts events of equal time in order; replace addresses by numbers and write chunks, and
//      tables of the pinned memory, which follows from addresses, at the snapshots of resident pages and the end.
//   3. Read what was written, compare its figures with those of step 1, and add snapshots.
//
// The trace of a program that still runs is compacted up to the moment at which it was opened.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/model/profile.h"
#include "analyzer/replay/index/snapshot_writer.h"
#include "analyzer/replay/progress.h"

namespace heapprof::replay {

struct CompactOptions {
  bool exact = false;  ///< keep addresses, and times to the tick
  std::uint64_t chunk_records = 1 << 20;
  std::uint64_t snapshot_interval = kSnapshotInterval;  ///< records
  int level = 12;                                       ///< zstd compression level
};

struct CompactResult {
  std::uint64_t bytes = 0;  ///< size of the compacted trace
  std::uint64_t original_bytes = 0;
  std::uint64_t events = 0;
  bool running = false;        ///< the program was still running
  model::Integrity integrity;  ///< of the original: what it lacks, the compacted trace lacks, too
};

/// Writes the trace `from` to the file `to`, which appears only when it is complete. Throws trace::TraceError or
/// FileError; then no file was written.
CompactResult compact(const std::string& from, const std::string& to, const CompactOptions& options,
                      const Progress& progress = {});

}  // namespace heapprof::replay
