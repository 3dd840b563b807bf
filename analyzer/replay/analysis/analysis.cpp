#include "analyzer/replay/analysis/analysis.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "analyzer/model/call_tree.h"
#include "analyzer/replay/batch_pump.h"
#include "analyzer/symbols/name_table.h"
#include "analyzer/trace/events/limits.h"

namespace heapprof::replay {
namespace {

std::string count_of(std::uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

/// A reader and what replays its events, at the beginning or at a snapshot.
struct Analysis::Run {
  Run(const trace::TraceFile& file, const Selection& selection, const Choice& choice)
      : reader(std::in_place, file), replay(file, selection, choice) {}
  std::optional<trace::MergedReader> reader;
  Replay replay;
};

/// Tells progress of several passes as one.
class Analysis::Passes {
 public:
  Passes(const trace::TraceFile& file, const Progress& progress, unsigned passes)
      : file_(file), progress_(progress), passes_(passes) {}

  void skip() noexcept { --passes_; }
  void begin(const trace::MergedReader& reader, const Choice& choice = {}) {
    first_bytes_ = reader.frame_bytes_read();
    first_records_ = reader.records();
    first_time_ = reader.last_time();
    choice_ = choice;
  }
  void show(const trace::Batch& batch) {
    if (!progress_) return;
    const auto part = [](std::uint64_t at, std::uint64_t from, std::uint64_t to) {
      return at <= from || to <= from
                 ? 0
                 : std::min(1.0, static_cast<double>(at - from) / static_cast<double>(to - from));
    };
    double share = part(batch.frame_bytes_read, first_bytes_, file_.frame_bytes());
    if (choice_.has_end() && batch.count != 0)
      share = std::max(share, part(batch.storage[batch.count - 1].time, first_time_, choice_.end_ticks));
    progress_((done_ + share) / passes_, records_before_ + batch.records - first_records_);
  }
  void end(const trace::MergedReader& reader) {
    records_before_ += reader.records() - first_records_;
    ++done_;
  }

 private:
  const trace::TraceFile& file_;
  const Progress& progress_;
  unsigned passes_;
  unsigned done_ = 0;
  Choice choice_;
  std::uint64_t first_bytes_ = 0;
  std::uint64_t first_records_ = 0;
  std::uint64_t first_time_ = 0;
  std::uint64_t records_before_ = 0;
};

/// What says how far the trace can be believed.
struct Analysis::Found {
  const trace::Damage& damage;
  const trace::Definitions& definitions;
  std::uint64_t bad_events;
  std::uint64_t unfinished;
  bool paused_once;
};

namespace {

/// The first tick that is not before `ns`.
std::uint64_t ticks_at(const trace::TickClock& clock, std::uint64_t ns) {
  std::uint64_t low = 0;
  std::uint64_t high = std::uint64_t{1} << 63;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (clock.to_ns(middle) < ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

std::uint64_t ns_of(const Moment& moment, std::uint64_t duration_ns) {
  const double ns = moment.percent ? moment.value / 100 * static_cast<double>(duration_ns) : moment.value * 1e9;
  return ns <= 0 ? 0 : ns >= 9e18 ? 9'000'000'000'000'000'000 : static_cast<std::uint64_t>(ns + 0.5);
}

/// Every digit, in the form that options take: "1.004321ms".
std::string exact_time(std::uint64_t ns) {
  const auto [unit, unit_ns, digits] = ns >= 1'000'000'000 ? std::tuple("s", std::uint64_t{1'000'000'000}, 9)
                                       : ns >= 1'000'000   ? std::tuple("ms", std::uint64_t{1'000'000}, 6)
                                       : ns >= 1'000       ? std::tuple("us", std::uint64_t{1'000}, 3)
                                                           : std::tuple("ns", std::uint64_t{1}, 0);
  std::string text = std::to_string(ns / unit_ns);
  if (ns % unit_ns != 0) {
    const std::string fraction = std::to_string(ns % unit_ns);
    text += "." + std::string(static_cast<std::size_t>(digits) - fraction.size(), '0') + fraction;
    text.resize(text.find_last_not_of('0') + 1);
  }
  return text + unit;
}

std::string words_of(const Moment& moment, std::uint64_t ns) {
  return moment.text.empty() ? exact_time(ns) : moment.text;
}

/// The same, and the recording must have it. Reports round its length, so a moment that rounds to the end is the end.
std::uint64_t ns_within(const Moment& moment, std::uint64_t duration_ns, const char* option,
                        const trace::TraceFile& file) {
  constexpr std::uint64_t kRounding = 200;
  const std::uint64_t ns = ns_of(moment, duration_ns);
  if (ns > duration_ns + duration_ns / kRounding) {
    // How long a program lived that was killed, or still runs, is not in its recording.
    const std::string ended_by = file.ended_by();
    const bool known_end = ended_by != "signal" && ended_by != "unknown" && ended_by != "running";
    throw SelectionError(file.input().path() + ": " + option + " " + words_of(moment, ns) + " is after the " +
                         (known_end ? "recording's end" : "last known event") + " at " + exact_time(duration_ns) +
                         "; give at most that, or a percentage (50%)");
  }
  return std::min(ns, duration_ns);
}

}  // namespace

Analysis::Analysis(const std::string& path, const Selection& selection, const Progress& progress,
                   const IndexUse& index_use)
    : selection_(selection), file_(path), index_use_(index_use) {
  profile_.selected = selection_.words;
  read_bundle();
  const bool whole_first = selection_.needs_scouting() || file_.compacted() != nullptr;
  Passes passes(file_, progress, 1u + whole_first + selection_.needs_lifetimes());
  if (whole_first) {
    if (find_index()) passes.skip();
    else scout(passes);
    clock_ = whole_->clock;
    link(whole_->definitions);
    describe_recording(whole_->definitions);
    profile_.recording.duration_ns = clock_.to_ns(whole_->last_time);
    settle_choice(passes);
    begin_at_snapshot();
  }

  const std::unique_ptr<Run> run = start();
  trace::MergedReader& reader = *run->reader;
  Replay& replay = run->replay;
  passes.begin(reader, choice_);
  pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const bool goes_on = replay.replay(batch);
    passes.show(batch);
    return goes_on;
  });
  // A replay that began at a snapshot has not met all samples.
  replay.finish(end_ticks(file_, whole_ != nullptr ? clock_ : replay.clock()));
  if (whole_ == nullptr) {
    clock_ = replay.clock();
    link(reader.definitions());
    describe_recording(reader.definitions());
    profile_.recording.duration_ns = clock_.to_ns(replay.last_time());
  }
  fill_costs(replay);
  fill_timeline(replay);
  if (whole_ == nullptr)
    settle_integrity(
        {reader.damage(), reader.definitions(), replay.bad_events(), replay.unfinished(), replay.paused_once()});
  else {
    trace::Damage damage = whole_->damage;
    if (file_.compacted() != nullptr) damage.add(reader.damage());
    settle_integrity({damage, whole_->definitions, whole_->bad_events, whole_->unfinished, whole_->paused_once});
  }
}

std::unique_ptr<Analysis::Run> Analysis::start() const {
  auto run = std::make_unique<Run>(file_, selection_, choice_);
  if (snapshot_.empty()) return run;
  const Restart restart = parse_snapshot(snapshot_);
  trace::ByteReader position(restart.position);
  run->reader.emplace(file_, *whole_, position);
  trace::ByteReader state(restart.state);
  if (!run->replay.restore(state, whole_->definitions.node_count)) return nullptr;
  return run;
}

/// Lets the replay begin at the last snapshot before the slice, if that gives the same answer.
void Analysis::begin_at_snapshot() {
  if (!index_ || choice_.from_ticks == 0 || selection_.needs_lifetimes()) return;
  try {
    snapshot_ = index_->snapshot_before(choice_.from_ticks);
    if (snapshot_.empty() || start() != nullptr) return;
  } catch (const trace::FormatError& error) {
    warnings_.push_back(index_->path() + ": " + error.what() + "; its snapshots are not used");
  }
  snapshot_.clear();
}

bool Analysis::find_index() {
  if (file_.compacted() != nullptr) {
    whole_ = file_.compacted()->whole;
    if (index_use_.use) index_ = Index::inside(file_);
    return true;
  }
  if (!index_use_.use || file_.writer() == trace::Writer::kRecording) return false;
  std::string why_not;
  index_ = Index::open(index_beside(file_), file_, why_not);
  if (!why_not.empty()) warnings_.push_back(why_not);
  // One in the cache that does not fit is replaced without a word.
  if (!index_) index_ = Index::open(index_in_cache(file_), file_, why_not);
  if (!index_) return false;
  whole_ = index_->whole();
  return true;
}

/// First of all: selections by name need the names.
void Analysis::read_bundle() {
  if (!file_.symbols()) return;
  const std::optional<std::string> packed = trace::read_symbols(file_.input(), file_.file_id(), *file_.symbols());
  std::optional<std::vector<symbols::ModuleNames>> names;
  if (packed) names = symbols::unpack(*packed);
  bundle_damaged_ = !names;
  if (names) profile_.bundle = std::make_shared<const std::vector<symbols::ModuleNames>>(std::move(*names));
}

void Analysis::link(const trace::Definitions& definitions) {
  model::LinkedTree tree = model::link_tree(definitions);
  profile_.modules = std::move(tree.modules);
  profile_.addresses = std::move(tree.addresses);
  profile_.nodes = std::move(tree.nodes);
  node_of_index_ = std::move(tree.node_of_index);
  lost_nodes_ = tree.lost_nodes + tree.circular_nodes;
}

/// Reads everything once for what only the whole trace tells; of a large trace an index is left in the cache.
void Analysis::scout(Passes& passes) {
  Run run(file_, Selection{}, Choice{});
  std::optional<CachedIndex> cached;
  if (index_use_.use && index_use_.keep && file_.writer() != trace::Writer::kRecording &&
      file_.frame_bytes() >= kWorthAnIndex) {
    cached.emplace(file_);
    run.reader->give_positions(kSnapshotInterval);
  }
  passes.begin(*run.reader);
  pump(*run.reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const bool goes_on = run.replay.replay(batch);
    if (cached) cached->after(batch, run.replay);
    passes.show(batch);
    return goes_on;
  });
  passes.end(*run.reader);
  run.replay.finish(end_ticks(file_, run.replay.clock()));
  whole_ = std::make_shared<const trace::Whole>(whole_of(*run.reader, run.replay));
  if (!cached || !cached->finish(*whole_)) return;
  std::string why_not;
  index_ = Index::open(index_in_cache(file_), file_, why_not);
}

/// Says what was asked for in the trace's own terms: ticks, nodes, blocks.
void Analysis::settle_choice(Passes& passes) {
  const std::uint64_t duration_ns = profile_.recording.duration_ns;
  if (selection_.is_slice()) {
    model::Slice slice{0, duration_ns};
    if (selection_.from) slice.from_ns = ns_within(*selection_.from, duration_ns, "--from", file_);
    if (selection_.to) slice.to_ns = ns_of(*selection_.to, duration_ns);
    if (slice.from_ns > slice.to_ns)
      throw SelectionError("--from " + (selection_.from ? words_of(*selection_.from, slice.from_ns) : "0s") +
                           " is after --to " +
                           (selection_.to ? words_of(*selection_.to, slice.to_ns) : exact_time(slice.to_ns)));
    choice_.from_ticks = ticks_at(clock_, slice.from_ns);
    if (selection_.to) choice_.end_ticks = ticks_at(clock_, slice.to_ns + 1);
    slice.to_ns = std::min(slice.to_ns, duration_ns);
    profile_.slice = slice;
  }
  if (selection_.choose_stacks) {
    const std::vector<std::uint8_t> chosen = selection_.choose_stacks(profile_);
    chosen_nodes_.reserve(node_of_index_.size());
    for (const std::uint32_t node : node_of_index_) chosen_nodes_.push_back(chosen[node]);
    choice_.nodes = &chosen_nodes_;
    stacks_found_ = std::count(chosen.begin(), chosen.end(), 0) != static_cast<std::ptrdiff_t>(chosen.size());
  }
  if (selection_.needs_lifetimes()) choose_blocks(passes);
}

/// Finds the blocks whose lifetime fits, or that are live at the moment asked for.
void Analysis::choose_blocks(Passes& passes) {
  const trace::TickClock& clock = clock_;
  const std::uint64_t end_ns = clock.to_ns(whole_->last_time);
  std::uint64_t moment_ns = 0;
  if (selection_.live_at) {
    moment_ns = ns_within(*selection_.live_at, end_ns, "--live-at", file_);
    profile_.live_at_ns = moment_ns;
  }
  const auto fits = [&](std::uint64_t from_ns, std::uint64_t to_ns, bool released) {
    if (selection_.live_at && (from_ns > moment_ns || (released && to_ns <= moment_ns))) return false;
    if (selection_.min_lifetime_ns && to_ns - from_ns < *selection_.min_lifetime_ns) return false;
    return !selection_.max_lifetime_ns || (released && to_ns - from_ns <= *selection_.max_lifetime_ns);
  };
  trace::MergedReader reader(file_);
  Replay replay(file_, Selection{});
  BlockTable ordinals;  // in the place of the size
  std::vector<ResolvedEvent> events;
  const auto look_at = [&] {
    for (const ResolvedEvent& event : events) {
      if (event.kind == ResolvedKind::kAllocation) {
        bool fresh;
        Block& block = ordinals.insert(event.address, fresh);
        block.size = chosen_blocks_.size();
        block.time = event.time;
        chosen_blocks_.push_back(false);
      } else if (event.kind == ResolvedKind::kRelease) {
        Block* const block = ordinals.find(event.address);
        if (block == nullptr) continue;
        chosen_blocks_[block->size] = fits(clock.to_ns(block->time), clock.to_ns(event.time), true);
        ordinals.erase(block);
      } else if (selection_.live_at && clock.to_ns(event.time) <= moment_ns) {
        profile_.resident = {clock.to_ns(event.time), event.size};
      }
    }
    events.clear();
  };
  passes.begin(reader);
  pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    replay.replay(batch, events);
    look_at();
    passes.show(batch);
    return true;
  });
  passes.end(reader);
  replay.finish(whole_->last_time);
  look_at();
  ordinals.for_each(
      [&](const Block& block) { chosen_blocks_[block.size] = fits(clock.to_ns(block.time), end_ns, false); });
  choice_.blocks = &chosen_blocks_;
}

void Analysis::describe_recording(const trace::Definitions& definitions) {
  const FileHeader& header = file_.header();
  model::Recording& recording = profile_.recording;
  recording.program = definitions.program;
  for (std::size_t at = 0; at < definitions.command_line.size();) {
    const std::size_t end = std::min(definitions.command_line.find('\0', at), definitions.command_line.size());
    recording.command_line.push_back(definitions.command_line.substr(at, end - at));
    at = end + 1;
  }
  recording.command_line_cut = definitions.command_line_cut;
  recording.working_directory = definitions.working_directory;
  // The kernel's file of the host's name ends in a line feed.
  recording.host = definitions.host.substr(0, definitions.host.find_last_not_of('\n') + 1);
  recording.pid = header.pid;
  recording.parent_pid = header.parent_pid;
  recording.live_pid = trace::visible_pid(header);
  recording.start_realtime_ns = header.start_realtime_ns;
  recording.trace_bytes = file_.bytes();
  if (const trace::Compacted* const compacted = file_.compacted()) {
    recording.compacted = true;
    recording.rounded = !compacted->exact;
    recording.original_bytes = compacted->original_bytes;
  }
  recording.trace_version = std::to_string(header.version_major) + "." + std::to_string(header.version_minor);
  recording.clock = header.clock == Clock::kTsc ? "tsc" : header.clock == Clock::kCntvct ? "cntvct" : "monotonic";
  recording.forked_child = (header.flags & kHeaderForkedChild) != 0;
  recording.tail_not_kill_safe = (header.flags & kHeaderTailNotKillSafe) != 0;
  recording.settings = file_.settings();
}

void Analysis::fill_costs(const Replay& replay) {
  profile_.heap = replay.heap();
  profile_.heap.peak_time_ns = clock_.to_ns(replay.heap().peak_time_ns);

  const CostTracker& mmap = replay.mmap_costs();
  profile_.mmap.mappings = replay.mappings().mappings;
  profile_.mmap.mapped_bytes = replay.mappings().mapped_bytes;
  profile_.mmap.reserved_bytes = replay.mappings().reserved_bytes;
  profile_.mmap.from_allocator_bytes = replay.mappings().from_allocator_bytes;
  profile_.mmap.peak_bytes = mmap.peak_bytes();
  profile_.mmap.peak_time_ns = clock_.to_ns(mmap.peak_time());
  profile_.mmap.live_bytes = mmap.live_bytes();

  profile_.kind = selection_.kind;
  const CostTracker& costs = replay.costs();
  profile_.peak_time_ns = clock_.to_ns(costs.peak_time());
  // All selected blocks are live at the moment. The replay found where they first had as many bytes, which leaves out
  // blocks of zero bytes that came later.
  const bool moment = profile_.is_moment();
  if (moment) {
    profile_.peak_time_ns = *profile_.live_at_ns;
    profile_.heap.peak_time_ns = *profile_.live_at_ns;
    profile_.heap.peak_bytes = profile_.heap.allocated_bytes;
    profile_.heap.peak_blocks = profile_.heap.allocations;
  }
  // What a slice leaks is not all that is live at its end, so it is looked for block by block.
  struct Leak {
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
  };
  std::vector<Leak> leaks;
  const bool later_than_start = choice_.from_ticks != 0;
  if (later_than_start) {
    leaks.resize(node_of_index_.size());
    const auto add = [&](std::uint32_t index, std::uint64_t bytes) {
      if (index >= leaks.size()) return;
      leaks[index].bytes += bytes;
      ++leaks[index].blocks;
    };
    if (selection_.kind != model::Kind::kMmap)
      replay.for_each_leak([&](const Block& block) { add(block.node, block.size); });
    if (selection_.kind != model::Kind::kHeap)
      replay.for_each_mapping_leak([&](const Region& region) {
        if (selection_.kind == model::Kind::kMmap || (region.flags & kMapFromAllocator) == 0)
          add(region.node, region.end - region.begin);
      });
  }
  const auto count = static_cast<std::uint32_t>(std::min(costs.node_count(), node_of_index_.size()));
  for (std::uint32_t index = 0; index < count; ++index) {
    const NodeCosts node = costs.settled(index);
    if ((node.allocations | node.live_blocks | node.peak_blocks) == 0) continue;
    model::Costs sum;
    sum.allocations = node.allocations;
    sum.allocated_bytes = node.allocated_bytes;
    sum.temporary = node.temporary;
    sum.temporary_bytes = node.temporary_bytes;
    sum.leaked_bytes = later_than_start ? leaks[index].bytes : node.live_bytes;
    sum.leaked_blocks = later_than_start ? leaks[index].blocks : node.live_blocks;
    sum.peak_bytes = moment ? node.allocated_bytes : node.peak_bytes;
    sum.peak_blocks = moment ? node.allocations : node.peak_blocks;
    profile_.nodes[node_of_index_[index]].costs += sum;
    profile_.totals += sum;
  }

  for (const Replay::Thread& from : replay.threads()) {
    model::Thread thread;
    thread.tid = from.tid;
    thread.name = from.name;
    thread.start_ns = clock_.to_ns(from.start_ticks);
    thread.allocations = from.allocations;
    thread.allocated_bytes = from.allocated_bytes;
    threads_found_ |= from.selected;
    threads_merged_ |= from.is_others;
    names_left_out_ |= from.name_left_out;
    profile_.threads.push_back(std::move(thread));
  }
  profile_.sizes = replay.sizes().sorted();
}

void Analysis::fill_timeline(const Replay& replay) {
  const model::LiveTimeline& live = replay.timeline();
  std::uint64_t start_ticks = choice_.from_ticks;
  model::LiveTimeline::Bucket before;
  for (const model::LiveTimeline::Bucket& from : live.buckets()) {
    model::Timeline::Bucket bucket;
    bucket.start_ns = clock_.to_ns(start_ticks);
    bucket.min_bytes = from.min_bytes;
    bucket.max_bytes = from.max_bytes;
    bucket.last_bytes = from.last_bytes;
    bucket.last_blocks = from.last_blocks;
    bucket.allocations = from.allocations - before.allocations;
    bucket.allocated_bytes = from.allocated_bytes - before.allocated_bytes;
    bucket.mapped_bytes = from.mapped_bytes;
    bucket.rss_bytes = from.rss_bytes;
    bucket.idle = !from.busy;
    profile_.timeline.buckets.push_back(bucket);
    before = from;
    start_ticks += live.width_ticks();
  }
  profile_.timeline.samples = replay.samples();
  profile_.timeline.peak_rss_bytes = replay.peak_rss_bytes();
  for (const Replay::Mark& mark : replay.marks())
    profile_.timeline.marks.push_back({clock_.to_ns(mark.ticks), mark.kind, mark.text});
}

void Analysis::settle_integrity(const Found& found) {
  const FileHeader& header = file_.header();
  model::Integrity& integrity = profile_.integrity;
  integrity.ended_by = file_.ended_by();
  if (header.end_kind == EndKind::kSignal ||
      (header.end_kind == EndKind::kExit && header.end_status != kEndStatusUnknown))
    integrity.end_status = header.end_status;
  if (header.end_kind == EndKind::kStopped)
    integrity.stop_reason = std::string(header.stop_reason, ::strnlen(header.stop_reason, sizeof header.stop_reason));

  trace::Damage damage = file_.damage();
  damage.add(found.damage);
  if (damage.events_lost.value_or(0) != 0 && damage.bytes == 0) {
    // Blocks are missing, and no damage is seen where they could have been: the file was cut between two
    // extents. Behind the cut there may have been streams of which nothing is known.
    damage.lost_unknown();
    damage.note("the file was cut at byte " + std::to_string(file_.original_bytes()));
  }
  const bool running = file_.writer() == trace::Writer::kRecording;
  if (profile_.recording.tail_not_kill_safe && !running &&
      (header.end_kind == EndKind::kNone || header.end_kind == EndKind::kSignal)) {
    damage.lost_unknown();
    damage.note("the file system does not let a killed program's last events reach the file; some may be missing");
  }
  if (bundle_damaged_) damage.note("the names that the trace carries are damaged, and are not used");
  if (lost_nodes_ != 0)
    damage.note(count_of(lost_nodes_, "stack frame has", "stack frames have") + " lost the definition: shown as '" +
                "definition_lost'");
  if (found.definitions.redefined_nodes != 0)
    damage.note(count_of(found.definitions.redefined_nodes, "stack frame was", "stack frames were") +
                " defined twice, differently; the first definition was used");
  integrity.complete = !damage.incomplete;
  integrity.bytes_damaged = damage.bytes;
  integrity.events_lost = damage.events_lost;

  std::vector<std::string>& notes = integrity.notes;
  for (const trace::Note& note : found.definitions.notes) notes.push_back(note.text);
  notes.insert(notes.end(), damage.notes.begin(), damage.notes.end());
  if (damage.notes_left_out != 0)
    notes.push_back("and " + std::to_string(damage.notes_left_out) + " more of that kind");
  if (threads_merged_)
    notes.push_back("the threads exceed the " + std::to_string(trace::max_threads(file_.bytes())) +
                    " that a file of this size can hold; the rest is shown as '(other threads)'");
  if (names_left_out_)
    notes.push_back("the names of threads exceed what a file of this size can hold; the rest of them is left out");
  if (found.bad_events != 0)
    notes.push_back(count_of(found.bad_events, "event", "events") + " without an address left out");
  if (found.unfinished != 0)
    notes.push_back(count_of(found.unfinished, "call", "calls") +
                    " of realloc, munmap or mremap began and had not returned at the end: taken as not made");
  const bool part_unrecorded =
      std::ranges::any_of(found.definitions.notes, [](const auto& note) { return note.is_about_unrecorded(); });
  const std::string because = part_unrecorded ? ", perhaps because of what is not recorded" : "";
  if (profile_.heap.unmatched_frees != 0) {
    std::string why = " of blocks whose allocation is not in the trace";
    if (profile_.recording.forked_child) why += ": they were made before the fork";
    else if (found.paused_once) why += ": recording was paused meanwhile";
    else if (!integrity.complete) why += ", parts of which are lost";
    else why += because;
    notes.push_back(count_of(profile_.heap.unmatched_frees, "release", "releases") + why);
  }
  if (profile_.heap.implied_frees != 0)
    notes.push_back(count_of(profile_.heap.implied_frees, "block was", "blocks were") +
                    " released unseen: the address was given out again" + because);
}

void Analysis::for_each_event(const std::function<void(std::span<const ProfileEvent>)>& sink,
                              const Progress& progress, const EventChoice& which) const {
  const std::unique_ptr<Run> run = start();
  trace::MergedReader& reader = *run->reader;
  Replay& replay = run->replay;
  if (which.of_kind) replay.resolve_kind();
  std::vector<std::uint8_t> resolved_nodes;  // by dense index
  if (which.nodes != nullptr) {
    resolved_nodes.reserve(node_of_index_.size());
    for (const std::uint32_t node : node_of_index_) resolved_nodes.push_back((*which.nodes)[node]);
    replay.resolve_nodes(resolved_nodes);
  }
  Passes passes(file_, progress, 1);
  passes.begin(reader, choice_);
  std::vector<ResolvedEvent> resolved;
  std::vector<ProfileEvent> events;
  const auto pass_on = [&] {
    events.clear();
    const auto node_of = [&](std::uint32_t index) {
      return index < node_of_index_.size() ? node_of_index_[index] : 0;
    };
    // Times come in order, and neighbours often share one; so do the births of what dies young.
    std::uint64_t ticks = 0;
    std::uint64_t ns = 0;
    std::uint64_t born_ticks = 0;
    std::uint64_t born_ns = 0;
    for (const ResolvedEvent& event : resolved) {
      if (event.before_slice && !which.with_older) continue;
      if (event.time != ticks) {
        ticks = event.time;
        ns = clock_.to_ns(ticks);
      }
      if (event.born != born_ticks) {
        born_ticks = event.born;
        born_ns = clock_.to_ns(born_ticks);
      }
      events.push_back({ns, event.address, event.size, node_of(event.node), event.thread, event.kind, event.temporary,
                        event.before_slice, event.in_realloc, event.freeing_thread,
                        event.freeing_node == kNoNode ? model::kNoIndex : node_of(event.freeing_node), born_ns,
                        event.old_address});
    }
    resolved.clear();
    sink(events);
  };
  if (which.with_older && !snapshot_.empty()) {
    replay.resolve_restored(resolved);
    pass_on();
  }
  pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const bool goes_on = replay.replay(batch, resolved);
    pass_on();
    passes.show(batch);
    return goes_on;
  });
  replay.finish(0);
  if (!resolved.empty()) pass_on();
  if (!which.survivors) return;
  replay.for_each_leak([&](const Block& block) {
    const std::uint32_t node = block.node < node_of_index_.size() ? node_of_index_[block.node] : 0;
    which.survivors({clock_.to_ns(block.time), block.address, block.size, node, block.thread});
  });
}

std::vector<std::vector<std::uint64_t>> Analysis::live_by_group(const std::vector<std::uint32_t>& group_of_node,
                                                                std::uint32_t groups,
                                                                const Progress& progress) const {
  const std::vector<model::Timeline::Bucket>& buckets = profile_.timeline.buckets;
  std::vector<std::vector<std::uint64_t>> result(groups, std::vector<std::uint64_t>(buckets.size(), 0));
  std::vector<std::uint64_t> live(groups, 0);
  std::vector<std::uint8_t> followed;
  followed.reserve(group_of_node.size());
  for (const std::uint32_t group : group_of_node) followed.push_back(group < groups);
  std::size_t bucket = 0;
  const auto close_bucket = [&] {
    for (std::uint32_t group = 0; group < groups; ++group) result[group][bucket] = live[group];
    ++bucket;
  };
  for_each_event(
      [&](std::span<const ProfileEvent> events) {
        for (const ProfileEvent& event : events) {
          while (bucket + 1 < buckets.size() && event.time_ns >= buckets[bucket + 1].start_ns) close_bucket();
          if (event.kind == ResolvedKind::kSample) continue;
          const std::uint32_t group = group_of_node[event.node];
          if (group >= groups) continue;
          if (event.kind == ResolvedKind::kAllocation) live[group] += event.size;
          else live[group] -= event.size;
        }
      },
      progress, {.with_older = true, .of_kind = true, .nodes = &followed});
  while (bucket < buckets.size()) close_bucket();
  return result;
}

}  // namespace heapprof::replay
