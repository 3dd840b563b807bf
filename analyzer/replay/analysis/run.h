// Analysis::Run: a reader and the replay of its events. Only for the files of Analysis.
#pragma once

#include <memory>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/replay.h"
#include "analyzer/trace/merged_reader.h"

namespace heapprof::replay {

struct Analysis::Run {
  Run(const trace::TraceFile& file, const Selection& selection, const ResolvedFilter& filter)
      : reader(std::make_unique<trace::MergedReader>(file)), replay(file, selection, filter) {}
  std::unique_ptr<trace::MergedReader> reader;  // never null; replaced when it resumes at a snapshot
  Replay replay;
  std::vector<ThreadSums> thread_sums;  // instead of those of the replay's threads, by index; empty: not instead
};

}  // namespace heapprof::replay
