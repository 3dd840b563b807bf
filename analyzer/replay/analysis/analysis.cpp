#include "analyzer/replay/analysis/analysis.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "analyzer/model/call_tree.h"
#include "analyzer/replay/analysis/followed.h"
#include "analyzer/replay/analysis/integrity.h"
#include "analyzer/replay/analysis/pass_progress.h"
#include "analyzer/replay/analysis/profile_parts.h"
#include "analyzer/replay/analysis/run.h"
#include "analyzer/replay/analysis/stored.h"
#include "analyzer/replay/batch_pump.h"
#include "analyzer/replay/index/index_cache.h"
#include "analyzer/replay/summarize.h"
#include "analyzer/trace/merged_reader.h"

namespace heapprof::replay {
namespace {

/// Whether a pass over the whole trace leaves an index in the cache.
bool leaves_index(const trace::TraceFile& file, const IndexUse& use) {
  return use.use && use.keep && file.recorder() != trace::RecorderState::kRecording &&
         file.frame_bytes() >= kMinBytesForIndex;
}

}  // namespace

Analysis::Analysis(const std::string& path, const Selection& selection, const Progress& progress,
                   const IndexUse& index_use, const SymbolLoader& load_symbols, const LeakVisitor& visit_leaked,
                   const MappingVisitor& visit_mapping, Followed* followed)
    : stored_(std::make_unique<Stored>()), selection_(selection), index_use_(index_use),
      visits_leaked_(visit_leaked != nullptr),
      file_owner_(followed != nullptr ? followed->file_
                                      : std::make_shared<const trace::TraceFile>(
                                            path, index_use.use ? trace::FrameListSource(frames_in_indexes)
                                                                : trace::FrameListSource())),
      file_(*file_owner_) {
  profile_.selection_text = selection_.description;
  // An overview often comes first, and with the index that its pass can leave, the next questions need none.
  // Live bytes over time come from it, too, instead of from another pass.
  const bool leaves_first = leaves_index(file_, index_use_) &&
                            (selection_.only_overview || (selection_.with_timeline && followed == nullptr &&
                                                          can_have_history() && can_keep_index()));
  const bool needs_summary = selection_.needs_summary() || file_.compacted() != nullptr || leaves_first;
  PassProgress passes(file_, progress, 1u + needs_summary + selection_.needs_marks() + needs_blocks_first());

  // Selections by name need the names.
  load_embedded_symbols(load_symbols);

  if (needs_summary || selection_.only_live || selection_.only_overview || can_add_sums()) {
    const bool found = find_summary();
    if (needs_summary && (found || leaves_first)) passes.skip_pass();
    if (needs_summary && !found) read_summary(passes);
    // There was no room for the history: what it would have had takes a pass.
    if (leaves_first && !found && !selection_.only_overview && history() == nullptr) passes.add_pass();
  }
  if (summary_ != nullptr) {
    clock_ = summary_->clock;
    set_recording(summary_->definitions, summary_->last_time);
    // From here on the clock, the call tree and the duration are final.

    if (selection_.only_overview && fill_overview()) return;
    if (selection_.needs_marks()) read_marks(passes);
    if (selection_.is_slice()) resolve_slice();
    if (selection_.survivors) resolve_survivors();
    const ResolvedFilter slice = filter_;
    if (selection_.only_live && selection_.live_at) end_at_moment();
    if (selection_.select_stacks) resolve_stacks();
    if (counts_live_at()) resolve_live_at();
    if (needs_blocks_first()) resolve_lifetimes(passes, slice);
    // From here on the filter is final.
  }

  if (followed != nullptr) take_over(*followed);
  const std::unique_ptr<Run> counted = followed != nullptr ? nullptr : count(passes);
  const Run* const run = followed != nullptr ? followed->run_.get() : counted.get();
  // All events were read: from here on damage, threads and sums are final.

  if (followed_ != nullptr) {
    clock_ = summary_->clock;
    set_recording(summary_->definitions, summary_->last_time);
  } else if (summary_ == nullptr) {
    clock_ = run->replay.clock();
    set_recording(run->reader->definitions(), run->replay.last_time());
  }
  fill_profile(*run);
  if (!is_whole()) fill_whole(run->replay, progress);
  fill_integrity(run);
  visit_live(run->replay, visit_leaked, visit_mapping);
}

Analysis::~Analysis() = default;

void Analysis::load_embedded_symbols(const SymbolLoader& load_symbols) {
  const std::optional<trace::EmbeddedSymbols>& symbols = file_.symbols();
  if (!symbols || !load_symbols) return;
  const std::optional<std::string> packed = trace::read_symbols(file_.input(), file_.file_id(), *symbols);
  if (packed) profile_.embedded_symbols = load_symbols(*packed);
  symbols_damaged_ = profile_.embedded_symbols == nullptr;
}

/// Takes the trace summary from the compacted trace or from an index. False: there is none.
bool Analysis::find_summary() {
  if (file_.compacted() != nullptr) {
    summary_ = file_.compacted()->summary;
    if (index_use_.use) stored_->index = Index::inside(file_);
    return true;
  }
  if (!index_use_.use || file_.recorder() == trace::RecorderState::kRecording) return false;
  std::string why_not;
  stored_->index = Index::open(index_beside(file_), file_, why_not);
  if (!why_not.empty()) warnings_.push_back(why_not);
  // An index in the cache that cannot be used is replaced without a warning.
  if (!stored_->index) stored_->index = Index::open(index_in_cache(file_), file_, why_not);
  if (!stored_->index) return false;
  summary_ = stored_->index->summary();
  return true;
}

/// Reads the whole trace for its summary. Leaves an index of a large trace in the cache.
void Analysis::read_summary(PassProgress& passes) {
  Run run(file_, Selection{}, ResolvedFilter{});
  std::optional<CachedIndexWriter> cached;
  if (leaves_index(file_, index_use_)) {
    cached.emplace(file_, run.replay);
    run.reader->give_positions(kIntervalRecords);
  }
  passes.begin(*run.reader);
  std::uint64_t peak_bytes = 0;
  pump(*run.reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    const bool more_needed = run.replay.replay(batch);
    SumsSoFar sums = run.replay.so_far();
    sums.peak_bytes = peak_bytes =
        std::max(peak_bytes, sums.peak_bytes);  // the index begins a new one in each interval
    if (cached) cached->after(batch);
    passes.show(batch, sums);
    return more_needed;
  });
  passes.end(*run.reader);
  if (cached) cached->end_of_trace(run.reader->records());
  run.replay.finish(end_ticks(file_, run.replay.clock()));
  summary_ = std::make_shared<const trace::TraceSummary>(summary_of(*run.reader, run.replay));
  stored_->totals = run.replay.totals();
  if (!cached || !cached->finish(*summary_, *stored_->totals)) return;
  std::string why_not;
  stored_->index = Index::open(index_in_cache(file_), file_, why_not);
}

/// Links the call tree and describes the recording. Precondition: clock_ is final. `last_time`: ticks.
void Analysis::set_recording(const trace::Definitions& definitions, std::uint64_t last_time) {
  profile_.recording = describe_recording(file_, definitions);
  model::FindFolded find_folded;
  if (selection_.find_folded && !selection_.only_overview)
    find_folded = [this](const std::vector<model::Module>& modules, const std::vector<model::CodeAddress>& asked) {
      profile_.modules = modules;
      return selection_.find_folded(profile_, asked);
    };
  model::LinkedTree tree = model::link_tree(definitions, find_folded);
  profile_.modules = std::move(tree.modules);
  profile_.addresses = std::move(tree.addresses);
  profile_.nodes = std::move(tree.nodes);
  node_of_index_ = std::move(tree.node_of_index);
  lost_nodes_ = tree.lost_nodes + tree.circular_nodes;
  lost_python_codes_ = tree.lost_python_codes;
  profile_.python_symbols = std::move(tree.python_symbols);
  profile_.recording.duration_ns = clock_.to_ns(trace::Ticks{last_time});
  profile_.recording.ended_realtime_ns =
      latest_end_ns(profile_.recording, {.kind = file_.header().end_kind,
                                         .ended_by = file_.ended_by(),
                                         .duration_ns = profile_.recording.duration_ns,
                                         .realtime_ns = file_.header().end_realtime_ns,
                                         .modified_ns = file_.input().modified_ns()});
}

/// Finds the user's marks in the whole recording: in the overview, or in a pass that replays nothing. Precondition:
/// clock_ is final.
void Analysis::read_marks(PassProgress& passes) {
  marks_.emplace();
  if (summary_->overview && summary_->overview->all_marks) {
    passes.skip_pass();
    for (const trace::Overview::Mark& mark : summary_->overview->marks)
      if (mark.kind == trace::Overview::MarkKind::kUser)
        marks_->push_back({clock_.to_ns(trace::Ticks{mark.ticks}), mark.text});
    return;
  }
  trace::MergedReader reader(file_);
  passes.begin(reader);
  pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
    for (const trace::EventText& text : batch.texts)
      if (text.kind == TextKind::kMark && marks_->size() < Replay::kMaxMarks)
        marks_->push_back({clock_.to_ns(trace::Ticks{text.address}), text.text});
    passes.show(batch);
    return true;
  });
  passes.end(reader);
  std::ranges::stable_sort(*marks_, {}, &MarkedTime::ns);
}

/// Takes everything from the overview of the summary. False: there is none.
bool Analysis::fill_overview() {
  if (!summary_->overview) return false;
  const trace::Overview& overview = *summary_->overview;
  model::HeapTotals& heap = profile_.heap;
  heap.allocations = profile_.totals.allocations = overview.allocations;
  heap.allocated_bytes = profile_.totals.allocated_bytes = overview.allocated_bytes;
  heap.frees = overview.frees;
  heap.failed = overview.failed;
  heap.unmatched_frees = overview.unmatched_frees;
  heap.implied_frees = overview.implied_frees;
  profile_.timeline.snapshots = overview.snapshots;
  for (const trace::Overview::Thread& thread : overview.threads)
    profile_.threads.push_back({thread.tid, thread.name, clock_.to_ns(trace::Ticks{thread.start_ticks}),
                                thread.allocations, thread.allocated_bytes});
  profile_.timeline.marks = marks_of(overview, clock_);
  threads_found_ = true;
  fill_integrity(nullptr);
  return true;
}

void Analysis::fill_profile(const Run& run) {
  const ProfileMapping mapping{selection_, filter_, clock_, node_of_index_};
  fill_costs(run.replay, mapping, profile_);
  const CostTracker& costs = run.replay.costs();
  if (costs.peak_allocations() != 0) peak_position_ = {costs.peak_time(), costs.peak_allocations()};
  if (selection_.only_live) keep_live_costs(profile_);
  fill_threads(run.replay, clock_, profile_);
  for (std::size_t i = 0; i < run.thread_sums.size(); ++i) {
    profile_.threads[i].allocations = run.thread_sums[i].allocations;
    profile_.threads[i].allocated_bytes = run.thread_sums[i].allocated_bytes;
  }
  const bool only_times = selection_.only_costs && !selection_.with_timeline;
  profile_.timeline = timeline_of(run.replay, mapping, only_times);
  timeline_width_ticks_ = run.replay.timeline().width_ticks();
  if (selection_.with_timeline && intervals_added_ != 0) profile_.timeline = timeline_from(*history());
  threads_found_ = std::ranges::any_of(run.replay.threads(), [](const auto& thread) { return thread.selected; });
}

/// Whether the costs of the nodes are those of everything that the recording has of this kind of memory.
bool Analysis::is_whole() const noexcept {
  return selection_.all_blocks() && !selection_.is_slice() && !selection_.only_live && !selection_.live_at &&
         selection_.kind != model::Kind::kAll;  // which leaves out what allocators mapped
}

/// Sets Profile::whole: from this replay if it has read everything, from the pass for the trace summary, from the
/// index, or from another pass.
void Analysis::fill_whole(const Replay& replay, const Progress& progress) {
  if (replay.has_all_totals()) stored_->totals = replay.totals();
  if (!stored_->totals && stored_->index) {
    try {
      stored_->totals = stored_->index->totals();
    } catch (const trace::FormatError& error) {
      warnings_.push_back(stored_->index->path() + ": " + error.what() + "; its totals are not used");
    }
  }
  if (!stored_->totals) {
    Run run(file_, Selection{}, ResolvedFilter{});
    PassProgress passes(file_, progress, 1);
    passes.begin(*run.reader);
    replay_to_end(run, passes);
    stored_->totals = run.replay.totals();
  }
  profile_.whole.resize(profile_.nodes.size());
  const std::size_t count = std::min(stored_->totals->size(), node_of_index_.size());
  for (std::size_t index = 0; index < count; ++index)
    profile_.whole[node_of_index_[index]] += stored_->totals->of(selection_.kind, index);
  stored_->totals.reset();
}

/// The timeline of the whole recording. Precondition: the profile's timeline has at least samples and the resident
/// memory.
model::Timeline Analysis::timeline_from(const LiveHistory& history) const {
  model::Timeline timeline;
  timeline.buckets = buckets_of(history.buckets, history.width_ticks, 0, clock_);
  timeline.marks = marks_of(*summary_->overview, clock_);
  timeline.samples = profile_.timeline.samples;
  timeline.snapshots = profile_.timeline.snapshots;
  timeline.peak_rss_bytes = profile_.timeline.peak_rss_bytes;
  return timeline;
}

/// `run`: null if nothing was replayed because the summary has an overview.
void Analysis::fill_integrity(const Run* run) {
  const auto any_thread = [&](bool Replay::Thread::*of_replay, bool trace::Overview::Thread::*of_overview) {
    if (run == nullptr)
      return std::ranges::any_of(summary_->overview->threads, [&](const auto& one) { return one.*of_overview; });
    return std::ranges::any_of(run->replay.threads(), [&](const auto& one) { return one.*of_replay; });
  };
  trace::Damage stream_damage = summary_ != nullptr ? summary_->damage : run->reader->damage();
  if (file_.compacted() != nullptr && run != nullptr) stream_damage.add(run->reader->damage());
  // The summary has those of the whole recording.
  if (summary_ == nullptr) run->replay.note_losses(stream_damage);
  const trace::Definitions& definitions = summary_ != nullptr ? summary_->definitions : run->reader->definitions();
  profile_.integrity = integrity_of(
      {.file = file_,
       .stream_damage = stream_damage,
       .definitions = definitions,
       .has_file_damage = followed_ != nullptr,
       .bad_events = summary_ != nullptr ? summary_->bad_events : run->replay.bad_events(),
       .unfinished = summary_ != nullptr ? summary_->unfinished : run->replay.unfinished(),
       .paused_once = summary_ != nullptr ? summary_->paused_once : run->replay.paused_once(),
       .lost_nodes = lost_nodes_,
       .lost_python_codes = lost_python_codes_,
       .symbols_damaged = symbols_damaged_,
       .threads_merged = any_thread(&Replay::Thread::is_others, &trace::Overview::Thread::is_others),
       .thread_names_left_out = any_thread(&Replay::Thread::name_left_out, &trace::Overview::Thread::name_left_out)},
      profile_);
}

}  // namespace heapprof::replay
