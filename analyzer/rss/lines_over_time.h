// Resident memory over time, by line: at the snapshots of a recording, or at its samples.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/rss/recorded_residency.h"
#include "analyzer/rss/resident_lines.h"

namespace heapprof::rss {

struct LinesAt {
  std::uint64_t time_ns = 0;
  std::array<std::uint64_t, kLines> bytes{};  ///< by Line
};

/// At most so many snapshots are divided into lines, which takes time for each: the evenly chosen ones, the one with
/// the largest RSS, and the last.
inline constexpr std::size_t kMaxSnapshotsOverTime = 60;

/// The lines at the complete snapshots, in order, in one replay. Precondition: the trace has addresses, and the
/// analysis excludes no block.
std::vector<LinesAt> lines_at_snapshots(const replay::Analysis& analysis,
                                        const std::vector<SnapshotSummary>& snapshots,
                                        const replay::Progress& progress = {});

/// What samples show: requested bytes of live blocks as far as the sample's private memory allows, files with shared
/// memory, and the rest as unknown.
std::vector<LinesAt> lines_at_samples(const model::Profile& profile, const std::vector<ResidentSample>& samples);

}  // namespace heapprof::rss
