// What a trace has recorded about resident memory: snapshots of the resident pages, and samples of their number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/replay/progress.h"
#include "analyzer/trace/residency.h"
#include "analyzer/trace/trace_file.h"

namespace heapprof::rss {

/// A snapshot without its pages. Times are nanoseconds since the start of the recording.
struct SnapshotSummary {
  std::uint64_t number = 0;
  SnapshotReason reason = SnapshotReason::kMark;
  SnapshotMethod method = SnapshotMethod::kPagemapScan;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t statm_bytes = 0;  ///< resident bytes as the kernel counted them at its begin; 0: unknown
  bool complete = false;
  std::string mark{};  ///< of reason kMark: the mark's text
  /// Of reason kMark: when the mark was set. The snapshot can begin some ms later. nullopt: the mark is missing.
  std::optional<std::uint64_t> mark_ns{};
};

/// "mark", "request", "exit" or "change".
const char* name_of(SnapshotReason reason) noexcept;

/// A sample of /proc/self/statm.
struct ResidentSample {
  std::uint64_t time_ns = 0;
  std::uint64_t resident_bytes = 0;
  std::optional<std::uint64_t> shared_bytes;  ///< pages of files and of shared memory; not in traces of format 1.0
};

struct RecordedResidency {
  /// Lists with more snapshots than any recording has are cut.
  static constexpr std::size_t kMaxSnapshots = 10'000;
  static constexpr std::size_t kMaxSamples = 2048;
  static constexpr std::uint64_t kMaxTimeNs = std::uint64_t{1} << 62;  ///< times in a damaged trace can be anything

  std::vector<SnapshotSummary> snapshots;        ///< in order
  std::optional<trace::ResidencySnapshot> last;  ///< the last complete one
  /// In order; of many, evenly chosen ones and the last one.
  std::vector<ResidentSample> samples;
  std::uint64_t end_ns = 0;         ///< the last known time: of the end, an event or a snapshot
  std::uint64_t last_event_ns = 0;  ///< of all events, samples included
  /// The time before which no event is missing in a damaged trace; nullopt: none is known to be missing.
  std::optional<std::uint64_t> intact_until_ns;
};

/// Reads the whole trace, without replaying it. Throws trace::TraceError.
RecordedResidency read_residency(const trace::TraceFile& file, const replay::Progress& progress = {});

/// Reads the trace up to the snapshot with this number. nullopt: there is none.
std::optional<trace::ResidencySnapshot> read_snapshot(const trace::TraceFile& file, std::uint64_t number);

/// Reads the whole trace, without replaying it, and calls visit() for each sample, in order. Throws
/// trace::TraceError.
void for_each_sample(const trace::TraceFile& file, const std::function<void(const ResidentSample&)>& visit,
                     const replay::Progress& progress = {});

/// The last sample at or before `time_ns`; nullopt: there is none.
std::optional<ResidentSample> read_sample(const trace::TraceFile& file, std::uint64_t time_ns);

/// The complete snapshot that `time_ns` means: the nearest one, if it is not further away than times are rounded
/// (0.5 %), or than the distance of samples (10 ms). That of a mark is as near as the mark. Null: none.
const SnapshotSummary* snapshot_at(const std::vector<SnapshotSummary>& snapshots, std::uint64_t time_ns) noexcept;

/// The complete snapshot that shows the end of the recording: at most 0.5 % of the recording before its end, but no
/// more than 100 ms, or 10 ms. That of an exit: as much before the last event, because it is also taken before an
/// exec, after which the program goes on if it fails. Null: none.
const SnapshotSummary* snapshot_at_end(const RecordedResidency& recorded) noexcept;

/// The last complete snapshot that ends at or before `time_ns`. Null: none.
const SnapshotSummary* snapshot_before(const std::vector<SnapshotSummary>& snapshots, std::uint64_t time_ns) noexcept;

}  // namespace heapprof::rss
