// What `heapprof record` says when the program has ended: the figures of each trace of the run, and which trace the
// summary is about.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/launch/recorded_traces.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::launch {

/// A trace of the run with the figures that a user wants to see at once.
struct TraceSummary {
  TraceFound trace;
  std::string error;           ///< why it could not be read; empty: it was
  std::string program;         ///< the last part of the executable's path
  std::string end;             ///< "exit status 0"
  std::uint64_t duration_ns = 0;
  std::uint64_t events = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_blocks = 0;
  std::uint64_t live_bytes = 0;   ///< at the end
  std::uint64_t live_blocks = 0;
  bool complete = true;
};

/// Reads the finished trace once: some 4 s of processor time for 100 million events.
TraceSummary summarize(const TraceFound& trace, const replay::Progress& progress = {});

/// A line for each figure, each ended by a newline; of a trace that could not be read, why.
std::string figures_text(const TraceSummary& summary);

/// A process that executes another program has a trace for each. Returns the position, in `traces`, of the one that
/// stands for each process, in the order in which the processes come first. That is the last program's trace: those
/// before are mostly wrapper scripts. An earlier one stands for the process if its peak is more than 1 MiB higher,
/// which no wrapper reaches.
std::vector<std::size_t> traces_of_processes(const std::vector<TraceSummary>& traces);

/// Sorts positions in `traces` by peak, highest first; equal peaks by events.
void sort_by_peak(std::vector<std::size_t>& positions, const std::vector<TraceSummary>& traces);

}  // namespace heapprof::launch
