#include "analyzer/trace/compact/trace_summary.h"

#include <algorithm>
#include <string>
#include <utility>

#include "analyzer/trace/events/limits.h"

namespace heapprof::trace {
namespace {

void save_nodes(const TraceSummary& summary, ByteWriter& out) {
  const Definitions& definitions = summary.definitions;
  out.number(definitions.node_count);
  std::uint32_t last_id = 0;
  NodeDefinition last;
  for (std::uint32_t index = 0; index < definitions.node_count; ++index) {
    const NodeDefinition node = index < definitions.nodes.size() ? definitions.nodes[index] : NodeDefinition{};
    out.signed_number(std::int64_t{summary.node_ids[index]} - last_id - 1);
    out.number((node.defined ? 1u : 0u) | (node.guessed ? 2u : 0u));
    last_id = summary.node_ids[index];
    if (!node.defined) continue;
    // Most nodes are first met in the order of a stack, so the parent is the node before.
    out.signed_number(std::int64_t{index} - 1 - node.parent);
    out.number(node.module);
    out.signed_number(static_cast<std::int64_t>(node.offset - last.offset));
    last = node;
  }
  out.number(definitions.redefined_nodes);
}

/// `file_bytes`: as of load_summary().
void load_nodes(TraceSummary& summary, ByteReader& in, std::uint64_t file_bytes) {
  Definitions& definitions = summary.definitions;
  constexpr std::size_t kMinItemBytes = 2;  // its id and flags
  const auto all = static_cast<std::uint32_t>(in.count(kMinItemBytes));
  if (all == 0) throw FormatError("it has no root of the call tree");
  const auto kept = static_cast<std::uint32_t>(std::min<std::uint64_t>(all, max_summary_nodes(file_bytes)));
  definitions.node_count = kept;
  summary.nodes_left_out = all - kept;
  definitions.nodes.resize(kept);
  summary.node_ids.resize(kept);
  std::uint32_t last_id = 0;
  NodeDefinition last;
  for (std::uint32_t index = 0; index < all; ++index) {
    last_id = static_cast<std::uint32_t>(std::int64_t{last_id} + 1 + in.signed_number());
    if (index < kept) summary.node_ids[index] = last_id;
    const std::uint64_t flags = in.number();
    if ((flags & 1) == 0) continue;
    NodeDefinition node;
    node.defined = true;
    node.guessed = (flags & 2) != 0;
    node.parent = static_cast<std::uint32_t>(index - 1 - static_cast<std::uint64_t>(in.signed_number()));
    if (node.parent >= all) throw FormatError("a stack frame has an unknown caller");
    if (node.parent >= kept) node.parent = 0;
    node.module = in.number32();
    node.offset = last.offset + static_cast<std::uint64_t>(in.signed_number());
    last = node;
    if (index < kept) definitions.nodes[index] = node;
  }
  definitions.redefined_nodes = in.number();
}

void save_texts(const Definitions& definitions, ByteWriter& out) {
  out.number(definitions.modules.size());
  for (const ModuleDefinition& module : definitions.modules) {
    out.number(raw(module.id));
    out.number(module.first_address);
    out.number(module.map_bytes);
    out.number(module.load_bias);
    out.text(module.build_id);
    out.text(module.path);
    out.number(module.is_main ? 1 : 0);
  }
  out.text(definitions.program);
  out.text(definitions.command_line);
  out.number((definitions.command_line_cut ? kCommandLineTruncated : 0) |
             (definitions.command_line_omitted ? kCommandLineOmitted : 0));
  out.text(definitions.working_directory);
  out.text(definitions.host);
  out.number(definitions.notes.size());
  for (const Note& note : definitions.notes) out.text(note.text);
}

void load_texts(Definitions& definitions, ByteReader& in) {
  const std::size_t modules = in.count();
  for (std::size_t i = 0; i < modules; ++i) {
    ModuleDefinition module;
    module.id = static_cast<ModuleId>(in.number32());
    module.first_address = in.number();
    module.map_bytes = in.number();
    module.load_bias = in.number();
    module.build_id = in.text();
    module.path = in.text();
    module.is_main = in.number() != 0;
    definitions.modules.push_back(std::move(module));
  }
  definitions.program = in.text();
  definitions.command_line = in.text();
  const std::uint64_t flags = in.number();
  definitions.command_line_cut = (flags & kCommandLineTruncated) != 0;
  definitions.command_line_omitted = (flags & kCommandLineOmitted) != 0;
  definitions.working_directory = in.text();
  definitions.host = in.text();
  const std::size_t notes = in.number_up_to(Damage::kMaxNotes);
  for (std::size_t i = 0; i < notes; ++i) definitions.notes.push_back({NoteKind::kUntyped, in.text()});
}

void save_overview(const Overview& overview, ByteWriter& out) {
  for (const std::uint64_t number : {overview.allocations, overview.allocated_bytes, overview.frees, overview.failed,
                                     overview.unmatched_frees, overview.implied_frees, overview.snapshots})
    out.number(number);
  out.number(overview.threads.size());
  for (const Overview::Thread& thread : overview.threads) {
    out.number(thread.tid);
    out.text(thread.name);
    out.number(thread.start_ticks);
    out.number(thread.allocations);
    out.number(thread.allocated_bytes);
    out.number((thread.is_others ? 1u : 0u) | (thread.name_left_out ? 2u : 0u));
  }
  out.number(overview.all_marks ? 1 : 0);
  out.number(overview.marks.size());
  for (const Overview::Mark& mark : overview.marks) {
    out.number(mark.ticks);
    out.number(static_cast<std::uint64_t>(mark.kind));
    out.text(mark.text);
  }
}

/// `file_bytes`: as of load_summary().
Overview load_overview(ByteReader& in, std::uint64_t file_bytes) {
  constexpr std::size_t kMinThreadBytes = 6;
  constexpr std::size_t kMinMarkBytes = 3;
  Overview overview;
  for (std::uint64_t* const number :
       {&overview.allocations, &overview.allocated_bytes, &overview.frees, &overview.failed,
        &overview.unmatched_frees, &overview.implied_frees, &overview.snapshots})
    *number = in.number();
  const std::size_t threads = in.count(kMinThreadBytes);
  if (threads > max_threads(file_bytes) + 1)
    throw FormatError("it has more threads than a file of this size can hold");
  overview.threads.resize(threads);
  for (Overview::Thread& thread : overview.threads) {
    thread.tid = in.number32();
    thread.name = in.text();
    thread.start_ticks = in.number();
    thread.allocations = in.number();
    thread.allocated_bytes = in.number();
    const std::uint64_t flags = in.number();
    thread.is_others = (flags & 1) != 0;
    thread.name_left_out = (flags & 2) != 0;
  }
  overview.all_marks = in.number() != 0;
  const std::size_t marks = in.count(kMinMarkBytes);
  if (marks > Overview::kMaxMarks) throw FormatError("it has more marks than a replay keeps");
  overview.marks.resize(marks);
  for (Overview::Mark& mark : overview.marks) {
    mark.ticks = in.number();
    mark.kind =
        static_cast<Overview::MarkKind>(in.number_up_to(static_cast<std::uint64_t>(Overview::MarkKind::kResumed)));
    mark.text = in.text();
  }
  return overview;
}

}  // namespace

void save(const Damage& damage, ByteWriter& out) {
  out.number(damage.bytes);
  out.number(damage.events_lost ? *damage.events_lost + 1 : 0);
  out.number(damage.incomplete ? 1 : 0);
  out.number(damage.notes.size());
  for (const std::string& note : damage.notes) out.text(note);
  out.number(damage.notes_left_out);
}

Damage load_damage(ByteReader& in) {
  Damage damage;
  damage.bytes = in.number();
  const std::uint64_t lost = in.number();
  if (lost == 0) damage.events_lost.reset();
  else damage.events_lost = lost - 1;
  damage.incomplete = in.number() != 0;
  const std::size_t notes = in.number_up_to(Damage::kMaxNotes);
  for (std::size_t i = 0; i < notes; ++i) damage.notes.push_back(in.text());
  damage.notes_left_out = in.number();
  return damage;
}

void save(const TraceSummary& summary, ByteWriter& out) {
  out.number(summary.last_time);
  out.number(summary.records);
  out.number(summary.events);
  out.number(summary.bad_events);
  out.number(summary.unfinished);
  out.number(summary.paused_once ? 1 : 0);
  save(summary.damage, out);
  const std::vector<TickClock::Point>& points = summary.clock.points();
  out.number(points.size());
  TickClock::Point last;
  for (const TickClock::Point& point : points) {
    out.number(point.ticks - last.ticks);
    out.number(point.ns - last.ns);
    last = point;
  }
  save_texts(summary.definitions, out);
  save_nodes(summary, out);
  for (const Note& note : summary.definitions.notes) out.number(static_cast<std::uint64_t>(note.kind));
  if (summary.overview) save_overview(*summary.overview, out);
}

TraceSummary load_summary(ByteReader& in, const FileHeader& header, std::uint64_t file_bytes) {
  TraceSummary summary;
  summary.last_time = in.number();
  summary.records = in.number();
  summary.events = in.number();
  summary.bad_events = in.number();
  summary.unfinished = in.number();
  summary.paused_once = in.number() != 0;
  summary.damage = load_damage(in);
  std::vector<TickClock::Point> points(in.number_up_to(std::min(in.left(), TickClock::kMaxPoints + 1)));
  TickClock::Point last;
  for (TickClock::Point& point : points) {
    const std::uint64_t ticks = in.number();
    const bool first = &point == points.data();
    if (first != (ticks == 0)) throw FormatError("two points of its clock have the same time");
    point = {last.ticks + ticks, last.ns + in.number()};
    if (point.ticks < last.ticks || point.ns < last.ns) throw FormatError("its clock goes backwards");
    last = point;
  }
  if (points.empty() || points.front().ns != 0) throw FormatError("its clock does not start at 0");
  summary.clock = TickClock(header, std::move(points));
  load_texts(summary.definitions, in);
  load_nodes(summary, in, file_bytes);
  // Files written before notes had kinds end here.
  if (in.left() != 0)
    for (Note& note : summary.definitions.notes) note.kind = static_cast<NoteKind>(in.number32());
  if (in.left() != 0) summary.overview = load_overview(in, file_bytes);
  in.expect_end();
  return summary;
}

TraceSummary read_summary(const InputFile& input, const SectionTable& sections, const FileHeader& header,
                          std::uint64_t file_bytes) {
  const std::vector<std::uint8_t> contents = read_contents(input, sections.summaries.back());
  ByteReader in(contents);
  TraceSummary summary = load_summary(in, header, file_bytes);
  if (sections.python.empty()) return summary;
  const std::vector<std::uint8_t> python = read_contents(input, sections.python.back());
  ByteReader python_in(python);
  summary.definitions.python = load_python(python_in);
  return summary;
}

}  // namespace heapprof::trace
