#include "analyzer/rss/lines_over_time.h"

#include <algorithm>
#include <set>
#include <utility>

#include "analyzer/replay/replay.h"
#include "analyzer/rss/process_memory.h"
#include "analyzer/rss/snapshot_lines.h"

namespace heapprof::rss {
namespace {

using allocators::ProcessAllocators;
using trace::Batch;
using trace::MergedEvent;
using trace::ResidencySnapshot;

/// Snapshots and samples may be after the last event, at which a recording without an end ends.
bool in_slice(const model::Profile& profile, std::uint64_t time_ns) {
  return !profile.slice || time_ns <= profile.slice->to_ns;
}

std::set<std::uint64_t> chosen_numbers(const std::vector<SnapshotSummary>& snapshots) {
  std::vector<SnapshotSummary> complete;
  std::ranges::copy_if(snapshots, std::back_inserter(complete), &SnapshotSummary::complete);
  std::set<std::uint64_t> numbers;
  if (complete.empty()) return numbers;
  const std::size_t count = std::min(complete.size(), kMaxSnapshotsOverTime - 2);
  for (std::size_t i = 0; i < count; ++i) numbers.insert(complete[i * complete.size() / count].number);
  numbers.insert(std::ranges::max_element(complete, {}, &SnapshotSummary::statm_bytes)->number);
  numbers.insert(complete.back().number);
  return numbers;
}

/// Replays the events of batches, and stops where a snapshot ends.
class SnapshotReplay {
 public:
  SnapshotReplay(const replay::Analysis& analysis, const std::vector<SnapshotSummary>& snapshots)
      : analysis_(analysis), numbers_(chosen_numbers(snapshots)), snapshots_(analysis.file()),
        allocators_(analysis.profile()) {}

  void take(Batch& batch, replay::Replay& replay) {
    const std::span<MergedEvent> events = batch.events();
    std::size_t done = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].op() != Op::kText || batch.texts[events[i].node].kind != TextKind::kResidency) continue;
      std::optional<ResidencySnapshot> snapshot = snapshots_.add(batch.texts[events[i].node]);
      if (!snapshot || !snapshot->complete || !numbers_.contains(snapshot->number)) continue;
      if (!in_slice(analysis_.profile(), snapshot->begin_ns)) continue;
      replay_part(batch, done, i + 1, replay);
      done = i + 1;
      divide(*snapshot, replay);
    }
    if (done != 0) return replay_part(batch, done, events.size(), replay);
    collect(events);
    replay.replay(batch);
  }

  std::vector<LinesAt> lines() && { return std::move(lines_); }

 private:
  /// Before they are replayed: that reorders events of equal time, and empties those that it handles early.
  void collect(std::span<const MergedEvent> events) {
    for (const MergedEvent& event : events) once_held_.add(event, allocators_);
  }

  void replay_part(Batch& batch, std::size_t begin, std::size_t end, replay::Replay& replay) {
    Batch part;
    part.storage.assign(batch.storage.begin() + static_cast<std::ptrdiff_t>(begin),
                        batch.storage.begin() + static_cast<std::ptrdiff_t>(end));
    part.count = end - begin;
    collect(part.events());
    std::swap(part.texts, batch.texts);
    replay.replay(part);
    std::swap(part.texts, batch.texts);
  }

  void divide(const ResidencySnapshot& snapshot, const replay::Replay& replay) {
    std::vector<PlacedBlock> blocks;
    std::vector<replay::LiveMapping> mappings;
    ProcessAllocators allocators(analysis_.profile());
    analysis_.visit_live(
        replay,
        [&](const replay::LiveBlock& block) {
          blocks.push_back({block.address, block.size});
          allocators.see_block(block.address, block.size);
        },
        [&](const replay::LiveMapping& mapping) { mappings.push_back(mapping); });
    allocators.finish_blocks();
    LiveLayout live = lay_out(std::move(blocks), allocators);
    ProcessMemory process{analysis_.profile(), std::move(allocators), std::move(live), once_held_.ranges(),
                          std::move(mappings)};
    const ResidentMemory memory = classify(snapshot, process);
    LinesAt at{snapshot.end_ns, {}};
    for (std::size_t i = 0; i < kLines; ++i) at.bytes[i] = memory.lines[i].bytes;
    lines_.push_back(at);
    allocators_ = std::move(process.allocators);  // how it is configured shows in the addresses of blocks
  }

  const replay::Analysis& analysis_;
  const std::set<std::uint64_t> numbers_;
  trace::ResidencyReader snapshots_;
  ProcessAllocators allocators_;
  OnceHeld once_held_;
  std::vector<LinesAt> lines_;
};

}  // namespace

std::vector<LinesAt> lines_at_snapshots(const replay::Analysis& analysis,
                                        const std::vector<SnapshotSummary>& snapshots,
                                        const replay::Progress& progress) {
  SnapshotReplay snapshot_replay(analysis, snapshots);
  analysis.for_each_batch([&](Batch& batch, replay::Replay& replay) { snapshot_replay.take(batch, replay); },
                          progress);
  return std::move(snapshot_replay).lines();
}

std::vector<LinesAt> lines_at_samples(const model::Profile& profile, const std::vector<ResidentSample>& samples) {
  const std::vector<model::Timeline::Bucket>& buckets = profile.timeline.buckets;
  std::vector<LinesAt> result;
  std::size_t bucket = 0;
  for (const ResidentSample& sample : samples) {
    if (!in_slice(profile, sample.time_ns)) break;
    while (bucket + 1 < buckets.size() && buckets[bucket + 1].start_ns <= sample.time_ns) ++bucket;
    const std::uint64_t live = buckets.empty() ? 0 : buckets[bucket].last_bytes;
    const std::uint64_t files = std::min(sample.shared_bytes.value_or(0), sample.resident_bytes);
    const std::uint64_t requested = std::min(live, sample.resident_bytes - files);
    LinesAt at{sample.time_ns, {}};
    at.bytes[static_cast<std::size_t>(Line::kFiles)] = files;
    at.bytes[static_cast<std::size_t>(Line::kRequested)] = requested;
    at.bytes[static_cast<std::size_t>(Line::kUnknown)] = sample.resident_bytes - files - requested;
    result.push_back(at);
  }
  return result;
}

}  // namespace heapprof::rss
