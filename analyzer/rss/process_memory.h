// What the events of a trace show of its process at a moment: live blocks, memory that once held a block, mappings.
//
//   MemoryCollector collector;
//   Analysis analysis(path, selection, ..., collector.blocks(), collector.mappings());
//   const ProcessMemory memory = collector.finish(analysis, progress);
#pragma once

#include <vector>

#include "analyzer/allocators/process_allocators.h"
#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/rss/live_layout.h"
#include "analyzer/rss/range_parts.h"

namespace heapprof::rss {

struct ProcessMemory {
  const model::Profile& profile;
  allocators::ProcessAllocators allocators;
  LiveLayout live;
  /// Granules that once held a block, since they were mapped; those of live blocks need not be in it.
  PageRanges once_held;
  std::vector<replay::LiveMapping> mappings;  ///< by address, without overlap
};

/// Collects the granules that held a block, and forgets those whose memory was unmapped or mapped anew.
class OnceHeld {
 public:
  void add(const trace::MergedEvent& event, const allocators::ProcessAllocators& allocators);
  PageRanges ranges() const { return pages_.ranges(); }

 private:
  void allocated(std::uint64_t address, std::uint64_t size, const allocators::ProcessAllocators& allocators);
  void mapped_anew(std::uint64_t address, std::uint64_t size);

  pins::PageCollector pages_;
};

class MemoryCollector {
 public:
  /// Visitors for the analysis.
  replay::LeakVisitor blocks();
  replay::MappingVisitor mappings();

  /// Reads the trace again, to the end of the analysis's slice. Precondition: the trace has addresses, and the
  /// analysis excludes no block. The result refers to the analysis's profile.
  ProcessMemory finish(const replay::Analysis& analysis, const replay::Progress& progress = {});

 private:
  std::vector<PlacedBlock> blocks_;
  std::vector<replay::LiveMapping> mappings_;
};

}  // namespace heapprof::rss
