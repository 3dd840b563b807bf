#include "analyzer/pins/pinned_tables.h"

#include <algorithm>
#include <string>
#include <utility>

#include "analyzer/model/call_tree.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/replay/replay.h"
#include "analyzer/trace/compact/pinned_table.h"

namespace heapprof::pins {
namespace {

using allocators::Allocator;
using trace::PinnedTable;

static_assert(trace::kPinnedPageBytes == allocators::kPageBytes);

constexpr int kLevel = 9;  // of zstd

/// Live blocks that may be sorted for all tables together. It bounds their part of the time, also in a program with
/// many live blocks whose resident memory changes often.
constexpr std::uint64_t max_blocks(std::uint64_t records) { return (std::uint64_t{64} << 20) + 2 * records; }
/// Bytes of all tables together but that of the end.
constexpr std::uint64_t max_bytes(std::uint64_t compacted_bytes) {
  return (std::uint64_t{1} << 20) + compacted_bytes / 4;
}

/// What ProcessAllocators needs of a profile.
model::Profile process_of(const trace::Definitions& definitions) {
  model::Profile profile;
  profile.modules = model::link_tree(definitions).modules;
  for (const trace::Note& note : definitions.notes) profile.integrity.notes.push_back(note.text);
  return profile;
}

/// By dense index of the trace.
PinnedTable table_of(const PinnedMemory& memory) {
  PinnedTable table;
  table.allocator = allocators::name_of(memory.allocator);
  table.note = memory.note;
  table.returnable_bytes = memory.returnable_bytes;
  const std::vector<LiveSum>& by_node = memory.kept.by_node;
  std::vector<std::uint32_t> position_of_node(by_node.size(), 0);
  for (std::uint32_t node = 0; node < by_node.size(); ++node) {
    const LiveSum& live = by_node[node];
    if (live.blocks == 0) continue;
    position_of_node[node] = static_cast<std::uint32_t>(table.stacks.size());
    table.stacks.push_back({node, live.requested_bytes, live.usable_bytes, live.blocks});
  }
  // In the order in which they were found, because figures are sums of fractions in that order.
  const HolderSets& sets = memory.kept.sets;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    const std::span<const std::uint32_t> holders = sets.holders(set);
    table.sets.push_back({sets.bytes(set) / allocators::kPageBytes, table.members.size(), holders.size()});
    for (const std::uint32_t node : holders) table.members.push_back(position_of_node[node]);
  }
  return table;
}

Allocator allocator_named(const std::string& name) {
  for (const Allocator one : {Allocator::kGlibc, Allocator::kJemalloc, Allocator::kTcmalloc, Allocator::kMimalloc})
    if (name == allocators::name_of(one)) return one;
  return Allocator::kUnknown;
}

PinnedMemory memory_of(const PinnedTable& table, const replay::Analysis& analysis) {
  PinnedMemory memory;
  memory.allocator = allocator_named(table.allocator);
  memory.note = table.note;
  memory.returnable_bytes = table.returnable_bytes;
  memory.kept.by_node.resize(analysis.profile().nodes.size());
  std::vector<std::uint32_t> node_of_stack;
  for (const PinnedTable::Stack& stack : table.stacks) {
    node_of_stack.push_back(analysis.node_of(stack.node));
    memory.kept.by_node[node_of_stack.back()] += {stack.requested_bytes, stack.usable_bytes, stack.blocks};
  }
  std::vector<std::uint32_t> nodes;
  for (const PinnedTable::Set& set : table.sets) {
    nodes.clear();
    for (const std::uint32_t stack : std::span(table.members).subspan(set.first, set.count))
      nodes.push_back(node_of_stack[stack]);
    // Several stacks of the trace may be the same stack of the profile.
    std::ranges::sort(nodes);
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    memory.kept.sets.add(nodes, set.pages * trace::kPinnedPageBytes);
  }
  memory.add_up();
  return memory;
}

}  // namespace

PinnedTableMaker::PinnedTableMaker(const trace::TraceSummary& summary, std::uint64_t file_id,
                                   const std::vector<PinnedMoment>& snapshots)
    : summary_(summary), file_id_(file_id), process_(process_of(summary.definitions)), usual_(process_),
      small_quantum_(process_), usual_history_(usual_), small_quantum_history_(small_quantum_) {
  small_quantum_.set_small_quantum();
  for (const PinnedMoment& one : snapshots) moments_.push_back({summary.clock.first_tick_at(one.at_ns + 1), one});
  std::ranges::stable_sort(moments_, {}, &Moment::ticks);
}

void PinnedTableMaker::add(std::span<const trace::MergedEvent> events) {
  for (const trace::MergedEvent& event : events) usual_history_.add(event);
  if (!small_quantum_.has_small_quantum()) return;
  for (const trace::MergedEvent& event : events) small_quantum_history_.add(event);
}

void PinnedTableMaker::make(const replay::Replay& replay, std::uint64_t records, std::uint64_t bytes) {
  const PinnedMoment& moment = moments_[next_++].moment;
  if (blocks_sorted_ + replay.live_blocks() > max_blocks(records) || section_bytes_ > max_bytes(bytes)) return;
  blocks_sorted_ += replay.live_blocks();
  std::vector<std::uint8_t> section = section_of(replay, moment);
  section_bytes_ += section.size();
  if (section_bytes_ <= max_bytes(bytes)) sections_.push_back(std::move(section));
}

std::vector<std::vector<std::uint8_t>> PinnedTableMaker::finish(const replay::Replay& replay, std::uint64_t records,
                                                                std::uint64_t bytes) {
  while (next_ < moments_.size()) make(replay, records, bytes);
  const std::uint64_t end_ns = summary_.clock.to_ns(trace::Ticks{summary_.last_time});
  if (std::vector<std::uint8_t> section = section_of(replay, {end_ns, 0}); !section.empty())
    sections_.push_back(std::move(section));
  std::erase_if(sections_, [](const std::vector<std::uint8_t>& section) { return section.empty(); });
  return std::move(sections_);
}

/// Empty: a reader would refuse the table for the number of its sets.
std::vector<std::uint8_t> PinnedTableMaker::section_of(const replay::Replay& replay,
                                                       const PinnedMoment& moment) const {
  std::vector<PinningBlock> live;
  live.reserve(replay.live_blocks());
  replay.for_each_live([&](const replay::Block& block) { live.push_back({block.address, block.size, block.node}); });
  allocators::ProcessAllocators allocators(process_);
  see_blocks(allocators, live);
  const PageHistory& history = allocators.has_small_quantum() ? small_quantum_history_ : usual_history_;
  const PinnedTable table =
      table_of(pinned_memory_of(std::move(live), allocators, history, summary_.definitions.node_count));
  trace::ByteWriter contents;
  trace::save(table, contents);
  trace::SectionHeader header{};
  header.kind = trace::SectionKind::kPinned;
  header.file_id = file_id_;
  header.number = moment.at_ns;
  header.events = moment.snapshot;
  std::vector<std::uint8_t> section = trace::make_section(header, contents.bytes(), kLevel);
  const std::uint64_t payload_bytes = section.size() - sizeof header - 7;  // at least
  const bool accepted = table.sets.size() <= trace::max_pinned_sets(payload_bytes) &&
                        table.members.size() <= trace::max_pinned_members(payload_bytes) &&
                        contents.size() <= trace::kMaxSectionBytes;
  return accepted ? section : std::vector<std::uint8_t>();
}

std::vector<PinnedMoment> pinned_moments(const trace::TraceFile& file) {
  std::vector<PinnedMoment> moments;
  if (file.compacted() == nullptr) return moments;
  for (const trace::Section& section : file.compacted()->sections.pinned)
    moments.push_back({section.header.number, section.header.events});
  return moments;
}

PinnedMemory read_pinned_table(const replay::Analysis& analysis, const PinnedMoment& moment) {
  const trace::TraceFile& file = analysis.file();
  try {
    for (const trace::Section& section : file.compacted()->sections.pinned) {
      if (section.header.number != moment.at_ns || section.header.events != moment.snapshot) continue;
      const std::vector<std::uint8_t> contents = trace::read_contents(file.input(), section);
      trace::ByteReader in(contents);
      return memory_of(trace::load_pinned_table(in, file.compacted()->summary->definitions.node_count,
                                                section.header.payload_bytes),
                       analysis);
    }
    throw trace::FormatError("is missing");
  } catch (const trace::FormatError& error) {
    throw trace::TraceError(file.input().path() + ": the pinned memory at " + replay::exact_time(moment.at_ns) +
                            " is damaged: " + error.what() + "; use the original recording");
  }
}

}  // namespace heapprof::pins
