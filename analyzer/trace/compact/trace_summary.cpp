#include "analyzer/trace/compact/trace_summary.h"

#include <algorithm>
#include <string>
#include <utility>

namespace heapprof::trace {
namespace {

void save_nodes(const Whole& whole, ByteWriter& out) {
  const Definitions& definitions = whole.definitions;
  out.number(definitions.node_count);
  std::uint32_t last_id = 0;
  NodeDefinition last;
  for (std::uint32_t index = 0; index < definitions.node_count; ++index) {
    const NodeDefinition node = index < definitions.nodes.size() ? definitions.nodes[index] : NodeDefinition{};
    out.signed_number(std::int64_t{whole.node_ids[index]} - last_id - 1);
    out.number((node.defined ? 1u : 0u) | (node.guessed ? 2u : 0u));
    last_id = whole.node_ids[index];
    if (!node.defined) continue;
    // Most nodes are met in the order of a stack: the parent is the one before.
    out.signed_number(std::int64_t{index} - 1 - node.parent);
    out.number(node.module);
    out.signed_number(static_cast<std::int64_t>(node.offset - last.offset));
    last = node;
  }
  out.number(definitions.redefined_nodes);
}

void load_nodes(Whole& whole, ByteReader& in) {
  Definitions& definitions = whole.definitions;
  definitions.node_count = static_cast<std::uint32_t>(in.count());
  if (definitions.node_count == 0) throw FormatError("it has no stacks, not even the empty one");
  definitions.nodes.resize(definitions.node_count);
  whole.node_ids.resize(definitions.node_count);
  std::uint32_t last_id = 0;
  NodeDefinition last;
  for (std::uint32_t index = 0; index < definitions.node_count; ++index) {
    last_id = static_cast<std::uint32_t>(std::int64_t{last_id} + 1 + in.signed_number());
    whole.node_ids[index] = last_id;
    const std::uint64_t flags = in.number();
    if ((flags & 1) == 0) continue;
    NodeDefinition node;
    node.defined = true;
    node.guessed = (flags & 2) != 0;
    node.parent = static_cast<std::uint32_t>(index - 1 - static_cast<std::uint64_t>(in.signed_number()));
    if (node.parent >= definitions.node_count) throw FormatError("a stack frame has no caller");
    node.module = in.number32();
    node.offset = last.offset + static_cast<std::uint64_t>(in.signed_number());
    definitions.nodes[index] = last = node;
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
  out.number(definitions.command_line_cut ? 1 : 0);
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
  definitions.command_line_cut = in.number() != 0;
  definitions.working_directory = in.text();
  definitions.host = in.text();
  const std::size_t notes = in.number_up_to(Damage::kMaxNotes);
  for (std::size_t i = 0; i < notes; ++i) definitions.notes.push_back({NoteKind::kUntyped, in.text()});
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

void save(const Whole& whole, ByteWriter& out) {
  out.number(whole.last_time);
  out.number(whole.records);
  out.number(whole.events);
  out.number(whole.bad_events);
  out.number(whole.unfinished);
  out.number(whole.paused_once ? 1 : 0);
  save(whole.damage, out);
  const std::vector<TickClock::Point>& points = whole.clock.points();
  out.number(points.size());
  TickClock::Point last;
  for (const TickClock::Point& point : points) {
    out.number(point.ticks - last.ticks);
    out.number(point.ns - last.ns);
    last = point;
  }
  save_texts(whole.definitions, out);
  save_nodes(whole, out);
  for (const Note& note : whole.definitions.notes) out.number(static_cast<std::uint64_t>(note.kind));
}

Whole load_whole(ByteReader& in, const FileHeader& header) {
  Whole whole;
  whole.last_time = in.number();
  whole.records = in.number();
  whole.events = in.number();
  whole.bad_events = in.number();
  whole.unfinished = in.number();
  whole.paused_once = in.number() != 0;
  whole.damage = load_damage(in);
  std::vector<TickClock::Point> points(in.number_up_to(std::min(in.left(), TickClock::kMaxPoints + 1)));
  TickClock::Point last;
  for (TickClock::Point& point : points) {
    const std::uint64_t ticks = in.number();
    const bool first = &point == points.data();
    if (first != (ticks == 0)) throw FormatError("its clock stands still");
    last.ticks += ticks;
    last.ns += in.number();
    point = last;
  }
  if (points.empty() || points.front().ns != 0) throw FormatError("its clock has no beginning");
  whole.clock = TickClock(header, std::move(points));
  load_texts(whole.definitions, in);
  load_nodes(whole, in);
  // Files from before notes had kinds end here.
  if (in.left() != 0)
    for (Note& note : whole.definitions.notes) note.kind = static_cast<NoteKind>(in.number32());
  in.expect_end();
  return whole;
}

}  // namespace heapprof::trace
