// heapprof rss: what resident memory consists of.
//
// One reading of the trace finds the snapshots of resident pages, of which one is chosen. The replay to its time
// finds the live blocks and mappings, and a further reading the memory that held blocks before (analyzer/rss/).
#include <algorithm>
#include <utility>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/peak_moment.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/where_memory_went/rss_text.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/render/units.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/replay/selection.h"
#include "analyzer/rss/process_memory.h"
#include "analyzer/rss/sample_lines.h"
#include "analyzer/rss/snapshot_lines.h"

namespace heapprof::cli {
namespace {

using rss::Line;

/// The moment that is printed, and what resident memory is read from: a snapshot, or else a sample.
struct ResidencyAt {
  rss::RecordedResidency recorded;  ///< without `last`
  std::optional<trace::ResidencySnapshot> snapshot;
  std::optional<rss::ResidentSample> sample;
  std::uint64_t at_ns = 0;
  bool is_end = false;  ///< no event follows
};

/// The moment without --at: the end. Of a damaged trace, the last snapshot before the first missing event, since
/// nothing after it is known for sure.
const rss::SnapshotSummary* choose_default(const rss::RecordedResidency& recorded) {
  if (recorded.intact_until_ns)
    if (const rss::SnapshotSummary* const intact =
            rss::snapshot_before(recorded.snapshots, *recorded.intact_until_ns))
      return intact;
  return rss::snapshot_at_end(recorded);
}

/// The snapshot that was taken at a mark.
const rss::SnapshotSummary& snapshot_of_mark(const RssOptions& options, const rss::RecordedResidency& recorded,
                                             const std::string& mark, std::uint64_t& at_ns) {
  std::vector<std::string> marks, times;
  const rss::SnapshotSummary* found = nullptr;
  for (const rss::SnapshotSummary& one : recorded.snapshots) {
    if (one.mark.empty()) continue;
    marks.push_back("'" + one.mark + "'");
    if (one.mark != mark) continue;
    found = &one;
    times.push_back(replay::exact_time(one.end_ns));
  }
  const auto joined = [](const std::vector<std::string>& texts) {
    std::string list;
    for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + text;
    return list;
  };
  if (times.size() > 1)
    throw replay::SelectionError(options.trace.trace + ": " + std::to_string(times.size()) +
                                 " marks have the text '" + mark + "'; give the time of one: " + joined(times));
  if (found != nullptr) {
    at_ns = found->end_ns;
    return *found;
  }
  const std::string known = joined(marks);
  throw replay::SelectionError(
      options.trace.trace + ": --at " + options.at + ": no snapshot was taken at a mark '" + mark + "'; " +
      (known.empty() ? "the recording has no snapshot of a mark" : "marks with a snapshot: " + known));
}

const rss::SnapshotSummary* choose(const RssOptions& options, const rss::RecordedResidency& recorded,
                                   std::uint64_t& at_ns) {
  const std::uint64_t end_ns = recorded.end_ns;
  at_ns = end_ns;
  const std::optional<replay::Moment> at = parse_moment_or_mark(options.at);
  if (at && !at->mark.empty()) return &snapshot_of_mark(options, recorded, at->mark, at_ns);
  if (!at) return choose_default(recorded);
  at_ns = replay::ns_of(*at, end_ns);
  // Reports round the duration: half a percent more still means the end.
  if (at_ns > end_ns + end_ns / 200)
    throw replay::SelectionError(options.trace.trace + ": --at " + options.at + " is after the recording's end at " +
                                 render::human_time(end_ns) + "; give at most that, or a percentage (50%)");
  at_ns = std::min(at_ns, end_ns);
  return at_ns == end_ns ? rss::snapshot_at_end(recorded) : rss::snapshot_at(recorded.snapshots, at_ns);
}

ResidencyAt read_residency_at(const RssOptions& options, const trace::TraceFile& file) {
  const std::string& path = options.trace.trace;
  ResidencyAt result;
  ProgressLine progress("Searching " + path + " for snapshots");
  result.recorded = rss::read_residency(file, [&](const replay::Done& done) { progress.show(done); });
  progress.end();
  rss::RecordedResidency& recorded = result.recorded;
  std::optional<trace::ResidencySnapshot> last = std::exchange(recorded.last, std::nullopt);
  const rss::SnapshotSummary* const chosen = choose(options, recorded, result.at_ns);
  result.is_end = result.at_ns == recorded.end_ns && (chosen == nullptr || chosen->end_ns >= recorded.last_event_ns);
  if (chosen != nullptr) {
    result.at_ns = chosen->end_ns;
    if (last && last->number == chosen->number) result.snapshot = std::move(last);
    else result.snapshot = rss::read_snapshot(file, chosen->number);
  } else if (result.is_end) {
    if (!recorded.samples.empty()) result.sample = recorded.samples.back();
  } else {
    result.sample = rss::read_sample(file, result.at_ns);
  }
  if (!result.snapshot && !result.sample)
    throw trace::TraceError(path + ": neither a snapshot nor a sample of resident memory was recorded" +
                            (options.at.empty() ? "" : " up to " + options.at + "; give a later time"));
  return result;
}

/// The nodes of a profile with what is resident of their mappings as the costs: helpers and call sites follow from
/// these, as with 'heapprof report --kind mmap'.
model::Profile profile_of_mappings(const model::Profile& profile, const std::vector<rss::Part>& mappings) {
  model::Profile result;
  result.recording = profile.recording;
  result.modules = profile.modules;
  result.addresses = profile.addresses;
  result.nodes = profile.nodes;
  for (model::CallNode& node : result.nodes) node.costs = {};
  for (const rss::Part& part : mappings) {
    if (part.node >= result.nodes.size()) continue;
    model::Costs& costs = result.nodes[part.node].costs;
    costs.allocations = costs.leaked_blocks = costs.peak_blocks = 1;
    costs.allocated_bytes = costs.leaked_bytes = costs.peak_bytes = part.bytes;
  }
  return result;
}

Json parts_json(const RssAnswer& answer, const rss::LineFigures& line) {
  Json list = Json::array();
  for (const rss::Part& part : line.parts) {
    if (part.node == model::kNoIndex) {
      list.push_back({{"name", part.name}, {"bytes", part.bytes}, {"writable", part.writable}});
      continue;
    }
    list.push_back({{"name", site_name(mapping_site(answer, part.node))},
                    {"bytes", part.bytes},
                    {"stack", stack_json(answer.names, part.node)}});
  }
  return list;
}

Json snapshot_json(const rss::SnapshotSummary& snapshot) {
  return {{"number", snapshot.number},
          {"reason", rss::name_of(snapshot.reason)},
          {"begin_ns", snapshot.begin_ns},
          {"end_ns", snapshot.end_ns},
          {"statm_bytes", snapshot.statm_bytes == 0 ? Json(nullptr) : Json(snapshot.statm_bytes)},
          {"complete", snapshot.complete}};
}

/// The document of "rss --json" (docs/json.md).
Json rss_json(const RssAnswer& answer) {
  const rss::ResidentMemory& memory = answer.memory;
  Json json = head_json(answer.profile);
  json["at_ns"] = answer.at_ns;
  json["sampled_ns"] = answer.sample ? Json(answer.sample->time_ns) : Json(nullptr);
  json["rss_bytes"] = memory.total_bytes();
  json["source"] = answer.snapshot ? "snapshot" : "sample";
  json["allocator"] = allocators::name_of(answer.allocator);
  Json& lines = json["lines"] = Json::array();
  for (std::size_t i = 0; i < rss::kLines; ++i) {
    const auto line = static_cast<Line>(i);
    Json entry = {{"name", rss::name_of(line)}, {"bytes", memory.bytes_of(line)}};
    if (!memory[line].parts.empty()) entry["children"] = parts_json(answer, memory[line]);
    lines.push_back(std::move(entry));
  }
  const auto of_pages = [&](std::uint64_t bytes) { return answer.snapshot ? Json(bytes) : Json(nullptr); };
  json["outside"] = {{"swapped_bytes", of_pages(memory.swapped_bytes)},
                     {"page_table_bytes", of_pages(memory.page_table_bytes)},
                     {"not_resident_bytes", memory.not_resident_bytes},
                     {"huge_tlb_bytes", of_pages(memory.huge_tlb_bytes)}};
  json["written_file_bytes"] = memory.written_file_bytes ? Json(*memory.written_file_bytes) : Json(nullptr);
  json["verdict"] = rss_verdict(answer);
  json["snapshot"] = answer.snapshot ? snapshot_json(*answer.snapshot) : Json(nullptr);
  Json& snapshots = json["snapshots"] = Json::array();
  for (const rss::SnapshotSummary& one : answer.recorded.snapshots) snapshots.push_back(snapshot_json(one));
  json["note"] = answer.note.empty() ? Json(nullptr) : Json(answer.note);
  json["symbol_warnings"] = answer.names.warnings();
  return json;
}

void print_rss(const RssOptions& options, const replay::Analysis& analysis, rss::MemoryCollector& collector,
               const ResidencyAt& at) {
  const model::Profile& profile = analysis.profile();
  ProgressLine progress("Reading " + options.trace.trace + " again");
  const rss::ProcessMemory process =
      collector.finish(analysis, [&](const replay::Done& done) { progress.show(done); });
  progress.end();
  const rss::ResidentMemory memory =
      at.snapshot ? rss::classify(*at.snapshot, process) : rss::estimate(*at.sample, process);
  StackNames names(profile, options.trace.symbols);
  std::vector<std::uint32_t> nodes = nodes_of_findings(profile);
  for (const rss::Part& part : memory[Line::kMmap].parts) nodes.push_back(part.node);
  names.resolve(nodes);
  const Findings findings(profile, names, options.call_sites);
  const model::Profile of_mappings = profile_of_mappings(profile, memory[Line::kMmap].parts);
  const Findings mapping_findings(of_mappings, names, options.call_sites);
  RssAnswer answer{.profile = profile,
                   .names = names,
                   .findings = findings,
                   .mapping_findings = mapping_findings,
                   .memory = memory,
                   .recorded = at.recorded,
                   .allocator = process.allocators.main(),
                   .note = process.allocators.note(),
                   .at_ns = at.at_ns,
                   .live_bytes = rss::sum_of(process.live.requested),
                   .snapshot = {},
                   .sample = at.snapshot ? std::nullopt : at.sample};
  if (at.snapshot)
    for (const rss::SnapshotSummary& one : at.recorded.snapshots)
      if (one.number == at.snapshot->number) answer.snapshot = one;
  write_output(options.trace.output, options.trace.json ? dump(rss_json(answer)) : rss_text(options, answer));
}

}  // namespace

int run_rss(const RssOptions& given) {
  return guarded(given.trace.trace, [&] {
    RssOptions options = given;
    options.at = resolve_peak(options.trace, options.at);
    std::optional<ResidencyAt> at;
    {
      const trace::TraceFile file(options.trace.trace);
      if (file.compacted() != nullptr && !file.compacted()->exact)
        throw trace::TraceError(options.trace.trace +
                                ": the lines of resident memory follow from the addresses of blocks, which 'heapprof "
                                "compact' replaced by numbers; use the original recording, or one compacted with "
                                "--exact");
      at = read_residency_at(options, file);
    }
    TraceOptions trace = options.trace;
    if (!at->is_end) trace.texts.to = std::to_string(at->at_ns) + "ns";
    rss::MemoryCollector collector;
    return run_on_trace(
        trace, [&](const replay::Analysis& analysis) { print_rss(options, analysis, collector, *at); },
        collector.blocks(), collector.mappings());
  });
}

}  // namespace heapprof::cli
