#include "analyzer/replay/analysis/profile_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "analyzer/trace/recorder_process.h"

namespace heapprof::replay {
namespace {

using Leak = LeftSums::Sum;

/// By dense index, and in `of_threads` by thread. Not all live blocks at the end of a slice are leaks of the slice:
/// those in the table are counted one by one.
std::vector<Leak> leaks_of_slice(const Replay& replay, model::Kind kind, std::size_t nodes,
                                 std::vector<Leak>& of_threads) {
  std::vector<Leak> leaks(nodes);
  const auto add = [](std::vector<Leak>& to, std::uint32_t index, std::uint64_t bytes) {
    if (index >= to.size()) return;
    to[index].bytes += bytes;
    ++to[index].blocks;
  };
  if (kind != model::Kind::kMmap)
    replay.for_each_leak([&](const Block& block) {
      add(leaks, block.node, block.size);
      add(of_threads, block.thread, block.size);
    });
  const auto add_all = [](std::vector<Leak>& to, const std::vector<Leak>& sums) {
    for (std::size_t i = 0; i < std::min(to.size(), sums.size()); ++i) {
      to[i].bytes += sums[i].bytes;
      to[i].blocks += sums[i].blocks;
    }
  };
  add_all(leaks, replay.left_sums().nodes);
  add_all(of_threads, replay.left_sums().threads);
  if (kind != model::Kind::kHeap)
    replay.for_each_mapping_leak([&](const Region& region) {
      if (kind == model::Kind::kMmap || (region.flags & kMapFromAllocator) == 0)
        add(leaks, region.node, region.end - region.begin);
    });
  return leaks;
}

/// The costs of a profile from those of a replay. `leak`: of a slice; null: what is live is leaked.
model::Costs costs_of(const NodeCosts& node, const MovedBlocks& moved, const Leak* leak,
                      const model::Profile& profile) {
  const bool moment = profile.is_moment();
  model::Costs sum;
  sum.allocations = node.allocations;
  sum.allocated_bytes = node.allocated_bytes;
  sum.temporary = node.temporary;
  sum.temporary_bytes = node.temporary_bytes;
  sum.leaked_bytes = leak != nullptr ? leak->bytes : node.live_bytes;
  sum.leaked_blocks = leak != nullptr ? leak->blocks : node.live_blocks;
  sum.peak_bytes = moment ? node.allocated_bytes : node.peak_bytes;
  sum.peak_blocks = moment ? node.allocations : node.peak_blocks;
  if (profile.survivors_ns) {
    sum.peak_bytes = sum.leaked_bytes;
    sum.peak_blocks = sum.leaked_blocks;
  }
  // The sum of blocks that are all live at a moment is highest there.
  sum.live_bytes = profile.live_at_ns ? sum.peak_bytes : node.live_bytes;
  sum.live_blocks = profile.live_at_ns ? sum.peak_blocks : node.live_blocks;
  sum.moved_bytes = moved.bytes;
  sum.moved_blocks = moved.blocks;
  return sum;
}

}  // namespace

model::Recording describe_process(const FileHeader& header, const trace::Definitions& definitions) {
  model::Recording recording;
  recording.program = definitions.program;
  for (std::size_t at = 0; at < definitions.command_line.size();) {
    const std::size_t end = std::min(definitions.command_line.find('\0', at), definitions.command_line.size());
    recording.command_line.push_back(definitions.command_line.substr(at, end - at));
    at = end + 1;
  }
  recording.command_line_cut = definitions.command_line_cut;
  recording.command_line_omitted = definitions.command_line_omitted;
  recording.working_directory = definitions.working_directory;
  // The kernel's file with the host name ends in a line feed.
  recording.host = definitions.host.substr(0, definitions.host.find_last_not_of('\n') + 1);
  recording.pid = header.pid;
  recording.parent_pid = header.parent_pid;
  recording.live_pid = trace::visible_pid(header);
  recording.start_realtime_ns = header.start_realtime_ns;
  for (const trace::PythonInterpreter& one : definitions.python.interpreters())
    recording.python_interpreters.push_back({trace::version_text(one.version), one.why_off});
  return recording;
}

std::uint64_t latest_end_ns(const model::Recording& recording, const RecordingEnd& end) {
  if (recording.start_realtime_ns == 0 || end.duration_ns == 0) return 0;
  const std::uint64_t last_known_ns = recording.start_realtime_ns + end.duration_ns;
  // The recorder's clock stands still while the machine is suspended, and real time can be set.
  //
  // The process goes on, but with another program: none of the first one's code runs after the exec. The kernel makes
  // the real time up to 500 ppm faster than the recorder's clock, to correct it.
  if (end.kind == EndKind::kExec) return std::max(last_known_ns + end.duration_ns / 1000, end.realtime_ns);
  if (end.ended_by == "stopped" || end.ended_by == "running" || recording.live_pid != 0) return 0;
  // A program may write files at its end, after its last event, or be killed some time after it. That its process id
  // is given to another one so soon is unlikely.
  constexpr std::uint64_t kLongestEndNs = 60'000'000'000;
  // The file was written at the end, but a copy is younger.
  return std::max(last_known_ns, end.realtime_ns != 0 ? end.realtime_ns : end.modified_ns) + kLongestEndNs;
}

model::Recording describe_recording(const trace::TraceFile& file, const trace::Definitions& definitions) {
  const FileHeader& header = file.header();
  model::Recording recording = describe_process(header, definitions);
  recording.trace_bytes = file.bytes();
  if (const trace::Compacted* const compacted = file.compacted()) {
    recording.compacted = true;
    recording.rounded = !compacted->exact;
    recording.original_bytes = compacted->original_bytes;
  }
  recording.trace_version = file.is_version_known()
                                ? std::to_string(header.version_major) + "." + std::to_string(header.version_minor)
                                : "unknown";
  recording.clock = header.clock == Clock::kTsc ? "tsc" : header.clock == Clock::kCntvct ? "cntvct" : "monotonic";
  recording.forked_child = (header.flags & kHeaderForkedChild) != 0;
  recording.tail_not_kill_safe = (header.flags & kHeaderTailNotKillSafe) != 0;
  recording.settings = file.settings();
  for (const auto& [name, value] : recording.settings)
    if (name == "HEAPPROF_LABELS") recording.labels = decode_labels(value);
  return recording;
}

void fill_costs(const Replay& replay, const ProfileMapping& mapping, model::Profile& profile) {
  const trace::TickClock& clock = mapping.clock;
  profile.heap = replay.heap();
  profile.heap.peak_time_ns = clock.to_ns(trace::Ticks{replay.heap_costs().peak_time()});

  const CostTracker& mmap = replay.mmap_costs();
  profile.mmap.mappings = replay.mappings().mappings;
  profile.mmap.mapped_bytes = replay.mappings().mapped_bytes;
  profile.mmap.reserved_bytes = replay.mappings().reserved_bytes;
  profile.mmap.from_allocator_bytes = replay.mappings().from_allocator_bytes;
  profile.mmap.peak_bytes = mmap.peak_bytes();
  profile.mmap.peak_time_ns = clock.to_ns(trace::Ticks{mmap.peak_time()});
  profile.mmap.live_bytes = mmap.live_bytes();

  profile.kind = mapping.selection.kind;
  const CostTracker& costs = replay.costs();
  profile.peak_time_ns = clock.to_ns(trace::Ticks{costs.peak_time()});
  // With --live-at all selected blocks are live at that moment. The peak of the replay is the first time with as many
  // bytes, which would leave out blocks of 0 bytes that were allocated later.
  const bool moment = profile.is_moment();
  if (moment) {
    profile.peak_time_ns = *profile.moment_ns();
    profile.heap.peak_time_ns = *profile.moment_ns();
    profile.heap.peak_bytes = profile.survivors_ns ? profile.heap.leaked_bytes : profile.heap.allocated_bytes;
    profile.heap.peak_blocks = profile.survivors_ns ? profile.heap.leaked_blocks : profile.heap.allocations;
  }
  if (profile.survivors_ns) {
    profile.mmap.peak_time_ns = *profile.survivors_ns;
    profile.mmap.peak_bytes = profile.mmap.live_bytes;
  }
  const bool later_than_start = mapping.filter.from_ticks != 0;
  std::vector<Leak> leaks;
  std::vector<Leak> leaks_of_threads(mapping.selection.costs_by_thread ? replay.threads().size() : 0);
  if (later_than_start)
    leaks = leaks_of_slice(replay, mapping.selection.kind, mapping.node_of_index.size(), leaks_of_threads);
  const auto leak_of = [&](const std::vector<Leak>& all, std::uint32_t index) {
    return later_than_start ? &all[index] : nullptr;
  };
  const auto count = static_cast<std::uint32_t>(std::min(costs.node_count(), mapping.node_of_index.size()));
  for (std::uint32_t index = 0; index < count; ++index) {
    const NodeCosts node = costs.settled(index);
    if ((node.allocations | node.live_blocks | node.peak_blocks) == 0) continue;
    const model::Costs sum = costs_of(node, costs.moved_of(index), leak_of(leaks, index), profile);
    profile.nodes[mapping.node_of_index[index]].costs += sum;
    profile.totals += sum;
  }
  for (std::uint32_t thread = 0; thread < leaks_of_threads.size(); ++thread)
    profile.thread_costs.push_back(
        costs_of(replay.thread_costs().settled(thread), {}, leak_of(leaks_of_threads, thread), profile));
  if (!mapping.selection.only_costs) profile.sizes = replay.sizes().sorted();
}

void keep_live_costs(model::Profile& profile) {
  const auto live_only = [](const model::Costs& costs) {
    model::Costs live;
    live.allocations = live.leaked_blocks = live.peak_blocks = live.live_blocks = costs.leaked_blocks;
    live.allocated_bytes = live.leaked_bytes = live.peak_bytes = live.live_bytes = costs.leaked_bytes;
    return live;
  };
  for (model::CallNode& node : profile.nodes) node.costs = live_only(node.costs);
  profile.totals = live_only(profile.totals);
  const model::HeapTotals heap = profile.heap;
  profile.heap = {};
  profile.heap.allocations = profile.heap.peak_blocks = profile.heap.leaked_blocks = heap.leaked_blocks;
  profile.heap.allocated_bytes = profile.heap.peak_bytes = profile.heap.leaked_bytes = heap.leaked_bytes;
}

void fill_threads(const Replay& replay, const trace::TickClock& clock, model::Profile& profile) {
  for (const Replay::Thread& from : replay.threads()) {
    model::Thread thread;
    thread.tid = from.tid;
    thread.name = from.name;
    thread.start_ns = clock.to_ns(trace::Ticks{from.start_ticks});
    thread.allocations = from.allocations;
    thread.allocated_bytes = from.allocated_bytes;
    profile.threads.push_back(std::move(thread));
  }
}

model::Timeline timeline_of(const Replay& replay, const ProfileMapping& mapping, bool only_times) {
  model::Timeline timeline;
  const model::LiveTimeline& live = replay.timeline();
  timeline.buckets = buckets_of(live.buckets(), live.width_ticks(), mapping.filter.from_ticks, mapping.clock);
  if (only_times)
    for (model::Timeline::Bucket& bucket : timeline.buckets) bucket = {.start_ns = bucket.start_ns};
  timeline.samples = replay.samples();
  timeline.snapshots = replay.snapshots();
  timeline.peak_rss_bytes = replay.peak_rss_bytes();
  if (only_times) return timeline;
  for (const Replay::Mark& mark : replay.marks())
    timeline.marks.push_back({mapping.clock.to_ns(trace::Ticks{mark.ticks}), mark.kind, mark.text});
  return timeline;
}

std::vector<model::Timeline::Bucket> buckets_of(std::span<const model::LiveTimeline::Bucket> live,
                                                std::uint64_t width_ticks, std::uint64_t start_ticks,
                                                const trace::TickClock& clock) {
  std::vector<model::Timeline::Bucket> buckets;
  buckets.reserve(live.size());
  model::LiveTimeline::Bucket before;
  for (const model::LiveTimeline::Bucket& from : live) {
    model::Timeline::Bucket& bucket = buckets.emplace_back();
    bucket.start_ns = clock.to_ns(trace::Ticks{start_ticks});
    start_ticks += width_ticks;
    bucket.min_bytes = from.min_bytes;
    bucket.max_bytes = from.max_bytes;
    bucket.last_bytes = from.last_bytes;
    bucket.last_blocks = from.last_blocks;
    bucket.allocations = from.allocations - before.allocations;
    bucket.allocated_bytes = from.allocated_bytes - before.allocated_bytes;
    bucket.mapped_bytes = from.mapped_bytes;
    bucket.rss_bytes = from.rss_bytes;
    bucket.idle = !from.busy;
    before = from;
  }
  return buckets;
}

std::vector<model::Timeline::Mark> marks_of(const trace::Overview& overview, const trace::TickClock& clock) {
  using Kind = model::Timeline::Mark::Kind;
  std::vector<model::Timeline::Mark> marks;
  for (const trace::Overview::Mark& mark : overview.marks)
    marks.push_back({clock.to_ns(trace::Ticks{mark.ticks}),
                     mark.kind == trace::Overview::MarkKind::kPaused    ? Kind::kPaused
                     : mark.kind == trace::Overview::MarkKind::kResumed ? Kind::kResumed
                                                                        : Kind::kUser,
                     mark.text});
  return marks;
}

}  // namespace heapprof::replay
