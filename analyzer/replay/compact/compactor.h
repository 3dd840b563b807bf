// Rewriting a trace denser: what `heapprof compact` does.
//
// Three passes. The first finds what only the whole tells, which goes to the front. The second replays the
// events, which puts those of equal times in order, names blocks by numbers instead of addresses, and writes chunks.
// The third reads what was written, compares its figures with those of the first, and adds snapshots: a compacted
// trace has been read once before anybody sees it.
//
// Of a program that still runs, what was recorded up to the moment of opening is taken.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::replay {

struct CompactOptions {
  bool exact = false;                           ///< keep addresses, and times to the tick
  std::uint64_t chunk_records = 1 << 20;
  std::uint64_t snapshot_interval = kSnapshotInterval;
  int level = 12;                               ///< of zstd
};

struct CompactResult {
  std::uint64_t bytes = 0;
  std::uint64_t original_bytes = 0;
  std::uint64_t events = 0;
  bool running = false;   ///< its program still ran
};

/// Writes the trace `from` into `to`. Throws trace::TraceError; then there is no new file.
CompactResult compact(const std::string& from, const std::string& to, const CompactOptions& options,
                      const Progress& progress = {});

}  // namespace heapprof::replay
