#include "analyzer/cli/commands/shared/merged_recordings.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/model/merged_profile.h"
#include "analyzer/processes/process_tree.h"

namespace heapprof::cli {
namespace {

using processes::Begin;

const char* name_of(Begin begin) noexcept {
  switch (begin) {
    case Begin::kRoot: return "root";
    case Begin::kForked: return "forked";
    case Begin::kStarted: return "started";
    case Begin::kExecuted: return "executed";
  }
  return "";
}

model::ProcessFigures figures_of(const RecordingSet::Member& member, const model::Profile& profile) {
  const std::string& ended_by = profile.integrity.ended_by;
  model::ProcessFigures figures;
  figures.trace = member.path;
  figures.program = profile.recording.program;
  figures.command = command_of(profile);
  figures.end = ending_of(profile);
  figures.ended_well = (ended_by == "exit" && profile.integrity.end_status.value_or(0) == 0) || ended_by == "exec" ||
                       ended_by == "running";
  figures.pid = profile.recording.pid;
  figures.parent_pid = profile.recording.parent_pid;
  figures.start_ns = member.start_ns;
  figures.end_ns = member.start_ns + profile.recording.duration_ns;
  figures.events = profile.events();
  const bool is_heap = profile.kind == model::Kind::kHeap;
  figures.peak_bytes = is_heap && !profile.is_moment() ? profile.heap.peak_bytes : profile.totals.peak_bytes;
  figures.peak_rss_bytes = profile.highest_resident_bytes();
  figures.leaked_bytes = is_heap ? profile.heap.leaked_bytes : profile.totals.leaked_bytes;
  figures.costs = profile.totals;
  figures.complete = profile.integrity.complete;
  return figures;
}

MergedRecordings::Program& program_named(std::vector<MergedRecordings::Program>& programs, const std::string& name) {
  const auto found = std::ranges::find(programs, name, &MergedRecordings::Program::name);
  if (found != programs.end()) return *found;
  return programs.emplace_back(MergedRecordings::Program{name, {}, {}});
}

/// Brings the processes, given by member, into the order of their tree.
void arrange(std::map<std::size_t, model::ProcessFigures>& by_member, const RecordingSet& set,
             MergedRecordings& merged) {
  const std::vector<processes::TraceInTree> tree = processes::process_tree(set.headers());
  std::vector<std::optional<std::size_t>> from(set.members().size());
  for (const processes::TraceInTree& in_tree : tree) from[in_tree.trace] = in_tree.from;
  std::vector<int> position(set.members().size(), -1);
  std::vector<model::ProcessFigures>& processes = merged.profile.together->processes;
  for (const processes::TraceInTree& in_tree : tree) {
    const auto at = by_member.find(in_tree.trace);
    if (at == by_member.end()) continue;
    model::ProcessFigures& process = at->second;
    process.began = name_of(in_tree.begin);
    process.depth = in_tree.depth;
    // The nearest one that is among them.
    std::optional<std::size_t> before = in_tree.from;
    while (before && position[*before] < 0) before = from[*before];
    if (before) process.from = position[*before];
    if (before != in_tree.from && in_tree.begin == Begin::kExecuted)
      process.began = before ? "started" : "root";  // the program before is not among them
    position[in_tree.trace] = static_cast<int>(processes.size());
    processes.push_back(std::move(process));
    merged.members.push_back(in_tree.trace);
  }
}

/// The calendar time at which the one clock begins. A file without build ID must not have been written later.
std::uint64_t first_start_realtime_ns(const RecordingSet& set) {
  std::uint64_t first = UINT64_MAX;
  for (const RecordingSet::Member& member : set.members()) first = std::min(first, member.header.start_realtime_ns);
  return first;
}

/// What is said of all recordings together.
model::Integrity integrity_of(const std::vector<model::ProcessFigures>& processes) {
  model::Integrity integrity;
  integrity.ended_by = "exit";
  for (const model::ProcessFigures& process : processes) integrity.complete &= process.complete;
  return integrity;
}

}  // namespace

int run_on_recordings(const TraceOptions& options,
                      const std::function<void(const RecordingSet& set, const MergedRecordings& merged)>& print,
                      const MemberVisitor& visit) {
  return guarded(options.trace, [&] {
    RecordingSet set(options.traces);
    std::optional<SelectionOnClock> selection;
    std::string selection_text;
    try {
      replay::Selection all = options.selection;
      SelectionTexts texts = options.texts;
      for (std::string* const time : {&texts.from, &texts.to, &texts.live_at, &texts.survivors}) time->clear();
      resolve_selection(texts, options.symbols, all);
      selection_text = all.description;
      selection.emplace(options, set);
    } catch (const std::invalid_argument& error) {
      print_message(error.what());
      return 2;
    }
    MergedRecordings merged;
    model::Together together{set.name(), {}, set.unread(), set.copies(), 0, set.notes()};
    model::ProfileMerger merger;
    std::map<std::size_t, model::ProcessFigures> by_member;
    int status = set.unread() == 0 ? 0 : 1;
    std::uint64_t end_ns = 0;
    for (std::size_t member = 0; member < set.members().size(); ++member) {
      const std::optional<TraceOptions> one = selection->of(member);
      if (!one) {
        ++together.outside;
        continue;
      }
      bool read = false;
      const int result = run_on_trace(*one, [&](const replay::Analysis& analysis) {
        const model::Profile& profile = analysis.profile();
        const std::vector<std::uint32_t> nodes = merger.add(profile);
        const auto& process = by_member.emplace(member, figures_of(set.members()[member], profile)).first->second;
        end_ns = std::max(end_ns, process.end_ns);
        MergedRecordings::Program& program = program_named(merged.programs, base_name(profile.recording.program));
        program.totals += profile.totals;
        for (std::size_t node = 0; node < nodes.size(); ++node)
          if (!profile.nodes[node].costs.empty()) program.costs[nodes[node]] += profile.nodes[node].costs;
        read = true;
        if (visit) visit(member, analysis, set.members()[member].start_ns);
      });
      if (result == 2) return 2;
      if (result != 0) status = 1;
      if (!read) ++together.unread;
    }
    if (by_member.empty()) {
      if (together.unread == 0) print_message(set.name() + ": no recorded process ran then");
      return 1;
    }
    merged.profile = merger.take();
    merged.profile.selection_text = selection_text;
    merged.profile.recording.start_realtime_ns = first_start_realtime_ns(set);
    merged.profile.recording.duration_ns = end_ns;
    if (together.outside != 0) merged.profile.recording.duration_ns = set.last_end_ns(options.use_index);
    merged.profile.together = std::move(together);
    arrange(by_member, set, merged);
    merged.profile.integrity = integrity_of(merged.profile.together->processes);
    selection->describe(merged.profile);
    print(set, merged);
    return status;
  });
}

int run_on_profile(const TraceOptions& options, const std::function<void(const model::Profile& profile)>& print) {
  if (options.traces.empty())
    return run_on_trace(options, [&](const replay::Analysis& analysis) { print(analysis.profile()); });
  return run_on_recordings(options,
                           [&](const RecordingSet&, const MergedRecordings& merged) { print(merged.profile); });
}

}  // namespace heapprof::cli
