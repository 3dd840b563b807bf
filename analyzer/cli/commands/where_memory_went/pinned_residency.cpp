#include "analyzer/cli/commands/where_memory_went/pinned_residency.h"

#include <algorithm>

#include "analyzer/cli/text/progress_line.h"
#include "analyzer/rss/recorded_residency.h"

namespace heapprof::cli {
namespace {

std::uint64_t resident_bytes(const pins::PageRanges& ranges, const trace::PageStates& pages) {
  std::uint64_t bytes = 0;
  for (const AddressRange& range : ranges) bytes += pages.resident_bytes(range.begin, range.end);
  return bytes;
}

PinnedResidency measure(const trace::ResidencySnapshot& snapshot, const pins::PinnedMemory& memory) {
  return {true, snapshot.end_ns, snapshot.resident_bytes, resident_bytes(memory.kept.ranges, snapshot.pages),
          resident_bytes(memory.returnable, snapshot.pages)};
}

/// Private memory is pinned memory first, and returnable memory then, as far as it goes.
PinnedResidency estimate(const rss::ResidentSample& sample, const pins::PinnedMemory& memory) {
  const std::uint64_t private_bytes =
      sample.resident_bytes - std::min(sample.resident_bytes, sample.shared_bytes.value_or(0));
  const std::uint64_t pinned = std::min(memory.pinned_bytes, private_bytes);
  return {false, sample.time_ns, sample.resident_bytes, pinned,
          std::min(memory.returnable_bytes, private_bytes - pinned)};
}

}  // namespace

std::optional<PinnedResidency> read_pinned_residency(const TraceOptions& options, const replay::Analysis& analysis,
                                                     const pins::PinnedMemory& memory) {
  if (!pins::has_addresses(analysis.profile())) return std::nullopt;
  // A snapshot may follow events that are missing: then its pages are not those of the blocks that are known.
  if (!analysis.profile().integrity.complete) return std::nullopt;
  const trace::TraceFile& file = analysis.file();
  const std::uint64_t at_ns = analysis.profile().end_ns();
  ProgressLine progress("Searching " + options.trace + " for snapshots");
  const rss::RecordedResidency recorded =
      rss::read_residency(file, [&](const replay::Done& done) { progress.show(done); });
  progress.end();
  // 0.5 % of an hour are 18 s: the end needs a snapshot that is nearer.
  const rss::SnapshotSummary* const chosen = at_ns >= analysis.profile().recording.duration_ns
                                                 ? rss::snapshot_at_end(recorded)
                                                 : rss::snapshot_at(recorded.snapshots, at_ns);
  if (chosen != nullptr) {
    if (recorded.last && recorded.last->number == chosen->number) return measure(*recorded.last, memory);
    if (const auto snapshot = rss::read_snapshot(file, chosen->number)) return measure(*snapshot, memory);
  }
  if (const auto sample = rss::read_sample(file, at_ns)) return estimate(*sample, memory);
  return std::nullopt;
}

}  // namespace heapprof::cli
