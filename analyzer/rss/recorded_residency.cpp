#include "analyzer/rss/recorded_residency.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "analyzer/trace/events/tick_clock.h"
#include "analyzer/trace/merged_reader.h"

namespace heapprof::rss {
namespace {

using trace::EventText;
using trace::MergedEvent;
using trace::ResidencySnapshot;
using trace::TraceFile;

struct Mark {
  std::optional<std::uint64_t> time_ns;  // nullopt: there is none
  std::string text;
};

/// What one pass over a trace calls. Each returns whether it goes on.
struct Visitor {
  /// `mark`: the last one before the snapshot began.
  std::function<bool(ResidencySnapshot&&, const Mark& mark)> snapshot;
  std::function<bool(const ResidentSample&)> sample;
  std::function<void()> first_gap{};  ///< events are missing from here on; may be empty
};

/// What a pass to the end of the trace shows besides.
struct Totals {
  std::uint64_t end_ns = 0;  ///< of the last event, samples included
  std::optional<std::uint64_t> first_gap_ns;
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

Totals visit(const TraceFile& file, const Visitor& visitor, const replay::Progress& progress) {
  trace::MergedReader reader(file);
  trace::ResidencyReader snapshots(file);
  SampleReader samples(file);
  trace::TickClock clock(file.header());
  Totals totals;
  std::optional<std::uint64_t> first_gap_ticks;
  Mark last_mark;
  Mark mark;  // before the snapshot that is being read
  trace::Batch batch;
  while (reader.next(batch)) {
    for (const MergedEvent& event : batch.events()) {
      if (event.op() == Op::kSample) {
        clock.add_sample(event.time, event.address);
        if (!visitor.sample(samples.sample(event))) return totals;
        continue;
      }
      if (event.op() == trace::kGap && !first_gap_ticks) {
        first_gap_ticks = event.time;
        if (visitor.first_gap) visitor.first_gap();
      }
      if (event.op() != Op::kText) continue;
      const EventText& text = batch.texts[event.node];
      if (text.kind == TextKind::kSharedMemory) samples.shared(text.number);
      if (text.kind == TextKind::kMark) last_mark = {clock.to_ns(trace::Ticks{text.address}), text.text};
      if (text.kind != TextKind::kResidency) continue;
      if (text.address == 0) mark = last_mark;  // its first piece
      if (std::optional<ResidencySnapshot> snapshot = snapshots.add(text))
        if (!visitor.snapshot(std::move(*snapshot), mark)) return totals;
    }
    if (progress && file.frame_bytes() != 0)
      progress({.share = static_cast<double>(batch.frame_bytes_read) / static_cast<double>(file.frame_bytes()),
                .records = batch.records});
  }
  if (std::optional<ResidencySnapshot> snapshot = snapshots.finish()) visitor.snapshot(std::move(*snapshot), mark);
  clock.finish();
  totals.end_ns = clock.to_ns(trace::Ticks{reader.last_time()});
  if (first_gap_ticks) totals.first_gap_ns = clock.to_ns(trace::Ticks{*first_gap_ticks});
  return totals;
}

std::uint64_t distance(const SnapshotSummary& snapshot, std::uint64_t time_ns) noexcept {
  const std::uint64_t begin_ns = std::min(snapshot.mark_ns.value_or(snapshot.begin_ns), snapshot.begin_ns);
  if (time_ns < begin_ns) return begin_ns - time_ns;
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
  // A snapshot ends later than the event that it follows in the trace.
  std::uint64_t intact_snapshot_ns = 0;
  const FileHeader& header = file.header();
  if (header.end_monotonic_ns > header.start_monotonic_ns)
    result.end_ns = header.end_monotonic_ns - header.start_monotonic_ns;
  Visitor visitor;
  visitor.snapshot = [&](ResidencySnapshot&& snapshot, const Mark& mark) {
    result.end_ns = std::max(result.end_ns, snapshot.end_ns);
    const bool is_of_mark = snapshot.reason == SnapshotReason::kMark;
    if (result.snapshots.size() < RecordedResidency::kMaxSnapshots)
      result.snapshots.push_back({snapshot.number, snapshot.reason, snapshot.method, snapshot.begin_ns,
                                  snapshot.end_ns, snapshot.resident_bytes, snapshot.complete,
                                  is_of_mark ? mark.text : std::string(), is_of_mark ? mark.time_ns : std::nullopt});
    if (snapshot.complete) result.last = std::move(snapshot);
    return true;
  };
  visitor.sample = [&](const ResidentSample& sample) {
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
  };
  visitor.first_gap = [&] {
    if (result.last) intact_snapshot_ns = result.last->end_ns;
  };
  const Totals totals = visit(file, visitor, progress);
  result.end_ns = std::min(std::max(result.end_ns, totals.end_ns), RecordedResidency::kMaxTimeNs);
  result.last_event_ns = std::min(totals.end_ns, result.end_ns);
  if (totals.first_gap_ns) result.intact_until_ns = std::max(*totals.first_gap_ns, intact_snapshot_ns);
  if (last && result.samples.back().time_ns != last->time_ns) result.samples.push_back(*last);
  return result;
}

std::optional<ResidencySnapshot> read_snapshot(const TraceFile& file, std::uint64_t number) {
  std::optional<ResidencySnapshot> found;
  visit(file,
        {.snapshot =
             [&](ResidencySnapshot&& snapshot, const Mark&) {
               if (snapshot.number == number && snapshot.complete) found = std::move(snapshot);
               return !found;
             },
         .sample = [](const ResidentSample&) { return true; }},
        {});
  return found;
}

void for_each_sample(const TraceFile& file, const std::function<void(const ResidentSample&)>& visit_sample,
                     const replay::Progress& progress) {
  visit(file,
        {.snapshot = [](ResidencySnapshot&&, const Mark&) { return true; },
         .sample =
             [&](const ResidentSample& sample) {
               visit_sample(sample);
               return true;
             }},
        progress);
}

std::optional<ResidentSample> read_sample(const TraceFile& file, std::uint64_t time_ns) {
  std::optional<ResidentSample> found;
  visit(file,
        {.snapshot = [](ResidencySnapshot&&, const Mark&) { return true; },
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

const SnapshotSummary* snapshot_before(const std::vector<SnapshotSummary>& snapshots,
                                       std::uint64_t time_ns) noexcept {
  const SnapshotSummary* found = nullptr;
  for (const SnapshotSummary& snapshot : snapshots)
    if (snapshot.complete && snapshot.end_ns <= time_ns) found = &snapshot;
  return found;
}

const SnapshotSummary* snapshot_at_end(const RecordedResidency& recorded) noexcept {
  // Much can be freed in 0.5 % of an hour, and nothing of it changes resident memory.
  constexpr std::uint64_t kMinDistanceNs = 10'000'000;
  constexpr std::uint64_t kMaxDistanceNs = 100'000'000;
  const SnapshotSummary* const last = snapshot_before(recorded.snapshots, recorded.end_ns);
  if (last == nullptr) return nullptr;
  // The end of the process can be much later than its exit, without an event.
  const std::uint64_t end_ns =
      last->reason == SnapshotReason::kExit ? std::max(recorded.last_event_ns, last->end_ns) : recorded.end_ns;
  const std::uint64_t allowed = std::clamp(recorded.end_ns / 200, kMinDistanceNs, kMaxDistanceNs);
  return end_ns - last->end_ns <= allowed ? last : nullptr;
}

}  // namespace heapprof::rss
