#include "analyzer/rss/recorded_residency.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "analyzer/trace/merged_reader.h"

namespace heapprof::rss {
namespace {

using trace::EventText;
using trace::MergedEvent;
using trace::ResidencySnapshot;
using trace::TraceFile;

/// What one pass over a trace calls. Each returns whether it goes on.
struct Visitor {
  std::function<bool(ResidencySnapshot&&)> snapshot;
  std::function<bool(const ResidentSample&)> sample;
};

/// Pairs the samples with the shared memory that is recorded before them.
class SampleReader {
 public:
  explicit SampleReader(const TraceFile& file) : start_ns_(file.header().start_monotonic_ns) {}

  void shared(std::uint64_t bytes) { shared_bytes_ = bytes; }
  ResidentSample sample(const MergedEvent& event) {
    const std::uint64_t time_ns = event.address > start_ns_ ? event.address - start_ns_ : 0;
    return {time_ns, event.size(), std::exchange(shared_bytes_, std::nullopt)};
  }

 private:
  std::uint64_t start_ns_;
  std::optional<std::uint64_t> shared_bytes_;
};

void visit(const TraceFile& file, const Visitor& visitor, const replay::Progress& progress) {
  trace::MergedReader reader(file);
  trace::ResidencyReader snapshots(file);
  SampleReader samples(file);
  trace::Batch batch;
  while (reader.next(batch)) {
    for (const MergedEvent& event : batch.events()) {
      if (event.op() == Op::kSample) {
        if (!visitor.sample(samples.sample(event))) return;
        continue;
      }
      if (event.op() != Op::kText) continue;
      const EventText& text = batch.texts[event.node];
      if (text.kind == TextKind::kSharedMemory) samples.shared(text.number);
      if (text.kind != TextKind::kResidency) continue;
      if (std::optional<ResidencySnapshot> snapshot = snapshots.add(text))
        if (!visitor.snapshot(std::move(*snapshot))) return;
    }
    if (progress && file.frame_bytes() != 0)
      progress(static_cast<double>(batch.frame_bytes_read) / static_cast<double>(file.frame_bytes()), batch.records);
  }
  if (std::optional<ResidencySnapshot> snapshot = snapshots.finish()) visitor.snapshot(std::move(*snapshot));
}

std::uint64_t distance(const SnapshotSummary& snapshot, std::uint64_t time_ns) noexcept {
  if (time_ns < snapshot.begin_ns) return snapshot.begin_ns - time_ns;
  return time_ns > snapshot.end_ns ? time_ns - snapshot.end_ns : 0;
}

}  // namespace

const char* name_of(SnapshotReason reason) noexcept {
  switch (reason) {
    case SnapshotReason::kMark: return "mark";
    case SnapshotReason::kRequest: return "request";
    case SnapshotReason::kExit: return "exit";
    case SnapshotReason::kResidency: return "change";
  }
  return "unknown";
}

RecordedResidency read_residency(const TraceFile& file, const replay::Progress& progress) {
  RecordedResidency result;
  std::optional<ResidentSample> last;
  std::uint64_t number = 0;    // of samples
  std::uint64_t distance = 1;  // of those that are kept
  const FileHeader& header = file.header();
  if (header.end_monotonic_ns > header.start_monotonic_ns)
    result.end_ns = header.end_monotonic_ns - header.start_monotonic_ns;
  visit(file,
        {.snapshot =
             [&](ResidencySnapshot&& snapshot) {
               result.end_ns = std::max(result.end_ns, snapshot.end_ns);
               if (result.snapshots.size() < RecordedResidency::kMaxSnapshots)
                 result.snapshots.push_back({snapshot.number, snapshot.reason, snapshot.method, snapshot.begin_ns,
                                             snapshot.end_ns, snapshot.resident_bytes, snapshot.complete});
               if (snapshot.complete) result.last = std::move(snapshot);
               return true;
             },
         .sample =
             [&](const ResidentSample& sample) {
               result.end_ns = std::max(result.end_ns, sample.time_ns);
               last = sample;
               if (number++ % distance != 0) return true;
               result.samples.push_back(sample);
               if (result.samples.size() < RecordedResidency::kMaxSamples) return true;
               // Every second one stays.
               distance *= 2;
               std::size_t kept = 0;
               for (std::size_t i = 0; i < result.samples.size(); i += 2) result.samples[kept++] = result.samples[i];
               result.samples.resize(kept);
               return true;
             }},
        progress);
  result.end_ns = std::min(result.end_ns, RecordedResidency::kMaxTimeNs);
  if (last && result.samples.back().time_ns != last->time_ns) result.samples.push_back(*last);
  return result;
}

std::optional<ResidencySnapshot> read_snapshot(const TraceFile& file, std::uint64_t number) {
  std::optional<ResidencySnapshot> found;
  visit(file,
        {.snapshot =
             [&](ResidencySnapshot&& snapshot) {
               if (snapshot.number == number && snapshot.complete) found = std::move(snapshot);
               return !found;
             },
         .sample = [](const ResidentSample&) { return true; }},
        {});
  return found;
}

std::optional<ResidentSample> read_sample(const TraceFile& file, std::uint64_t time_ns) {
  std::optional<ResidentSample> found;
  visit(file,
        {.snapshot = [](ResidencySnapshot&&) { return true; },
         .sample =
             [&](const ResidentSample& sample) {
               if (sample.time_ns > time_ns) return false;
               found = sample;
               return true;
             }},
        {});
  return found;
}

const SnapshotSummary* snapshot_at(const std::vector<SnapshotSummary>& snapshots, std::uint64_t time_ns) noexcept {
  constexpr std::uint64_t kRounding = 200;  // times are printed with three digits
  constexpr std::uint64_t kSampleDistanceNs = 10'000'000;
  const SnapshotSummary* nearest = nullptr;
  for (const SnapshotSummary& snapshot : snapshots)
    if (snapshot.complete && (nearest == nullptr || distance(snapshot, time_ns) <= distance(*nearest, time_ns)))
      nearest = &snapshot;
  if (nearest == nullptr || distance(*nearest, time_ns) > std::max(time_ns / kRounding, kSampleDistanceNs))
    return nullptr;
  return nearest;
}

}  // namespace heapprof::rss
