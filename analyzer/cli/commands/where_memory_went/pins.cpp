// heapprof pins: who keeps memory that could be returned to the system.
//
// The replay finds the live blocks with their addresses and stacks. The records are read once more, for the memory
// that held blocks before (analyzer/pins/).
#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/pinned.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/where_memory_went/pins_text.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/findings/call_sites.h"

namespace heapprof::cli {
namespace {

constexpr std::size_t kMaxCompanions = 3;

/// The groups of the stacks that have live blocks.
struct Grouping {
  std::vector<std::uint32_t> group_of_node;  ///< by node of the profile; 0 of stacks without live blocks
  std::vector<PinGroupName> names;           ///< by group
};

/// What stacks of one group have in common.
std::uint32_t key_of(const findings::CodeFrames& frames, PinsOptions::By by, std::uint32_t node,
                     findings::FrameRef site) {
  if (by == PinsOptions::By::kStack) return node;
  if (!site.exists()) return model::kNoIndex;
  return by == PinsOptions::By::kFunction ? frames.function_of(site) : frames.lines_at(site.address)[site.index];
}

std::string name_of(const Findings& findings, PinsOptions::By by, findings::FrameRef site) {
  if (!site.exists()) return findings.without_site();
  const Frame frame = findings.frame(site);
  if (by == PinsOptions::By::kFunction) return findings.frames().name_of(findings.frames().function_of(site));
  return site_name(frame);
}

Grouping group_stacks(const Findings& findings, const std::vector<pins::LiveSum>& live_by_node, PinsOptions::By by) {
  const findings::CodeFrames& frames = findings.frames();
  const std::vector<findings::FrameRef> sites = findings::find_site_frames(frames, findings.helpers());
  Grouping result;
  result.group_of_node.assign(live_by_node.size(), 0);
  std::unordered_map<std::uint32_t, std::uint32_t> known;
  for (std::uint32_t node = 0; node < live_by_node.size(); ++node) {
    if (live_by_node[node].blocks == 0) continue;
    const auto [at, fresh] =
        known.try_emplace(key_of(frames, by, node, sites[node]), static_cast<std::uint32_t>(result.names.size()));
    if (fresh) result.names.push_back({node, sites[node], name_of(findings, by, sites[node])});
    result.group_of_node[node] = at->second;
    PinGroupName& group = result.names[at->second];
    if (live_by_node[node].requested_bytes > live_by_node[group.node].requested_bytes) group.node = node;
  }
  return result;
}

/// The document of interface "pins --json" (docs/json.md).
Json pins_json(const PinsOptions& options, const PinsAnswer& answer) {
  const pins::PinnedMemory& memory = answer.memory;
  Json json = head_json(answer.profile);
  json["at_ns"] = answer.profile.end_ns();
  json["allocator"] = allocators::name_of(memory.allocator);
  json["pinned_bytes"] = memory.pinned_bytes;
  json["usable_bytes"] = memory.usable_bytes;
  json["overhead_bytes"] = memory.overhead_bytes();
  json["returnable_bytes"] = memory.returnable_bytes;
  json["resident"] = nullptr;
  if (answer.residency)
    json["resident"] = {{"source", answer.residency->measured ? "snapshot" : "sample"},
                        {"at_ns", answer.residency->at_ns},
                        {"rss_bytes", answer.residency->rss_bytes},
                        {"pinned_bytes", answer.residency->pinned_bytes},
                        {"returnable_bytes", answer.residency->returnable_bytes}};
  json["note"] = memory.note.empty() ? Json(nullptr) : Json(memory.note);
  json["all_groups"] = answer.groups.size();
  Json& list = json["groups"] = Json::array();
  for (std::size_t i = 0; i < answer.shown; ++i) {
    const pins::PinGroup& group = answer.groups[i];
    const PinGroupName& name = answer.group_names[group.group];
    Json entry = {{"name", name.name},
                  {"alone_bytes", group.alone_bytes},
                  {"shared_bytes", group.shared_bytes},
                  {"overhead_bytes", group.overhead_bytes},
                  {"live_bytes", group.live.requested_bytes},
                  {"usable_bytes", group.live.usable_bytes},
                  {"blocks", group.live.blocks}};
    Json with = Json::array();
    Json with_bytes = Json::array();
    for (const pins::Companion& other : group.with) {
      with.push_back(answer.group_names[other.group].name);
      with_bytes.push_back(other.completed_bytes);
    }
    entry["with"] = std::move(with);
    entry["with_bytes"] = std::move(with_bytes);
    if (options.by == PinsOptions::By::kStack) entry["stack"] = stack_json(answer.names, name.node);
    list.push_back(std::move(entry));
  }
  json["symbol_warnings"] = answer.names.warnings();
  return json;
}

bool overlaps(const pins::PageRanges& ranges, const replay::LiveMapping& mapping) {
  const auto next =
      std::ranges::upper_bound(ranges, mapping.begin, {}, [](const AddressRange& one) { return one.end; });
  return next != ranges.end() && next->begin < mapping.end;
}

/// Without the mappings in which an allocator that is recorded has its blocks.
MappedByProgram find_mapped_by_program(const Findings& findings, const pins::PinnedMemory& memory,
                                       const std::vector<replay::LiveMapping>& mappings) {
  MappedByProgram result;
  // Other allocators map memory, too, and not all of it holds a block.
  if (memory.allocator != allocators::Allocator::kGlibc) return result;
  std::map<std::string, std::uint64_t> bytes_by_site;
  for (const replay::LiveMapping& mapping : mappings) {
    constexpr std::uint32_t kUncounted = kMapReserve | kMapFromAllocator;
    if ((mapping.flags & kMapAnonymous) == 0 || (mapping.flags & kUncounted) != 0 ||
        overlaps(memory.kept.ranges, mapping))
      continue;
    result.bytes += mapping.end - mapping.begin;
    const findings::FrameRef site = findings::call_site_of(findings.frames(), findings.helpers(), mapping.node);
    if (site.exists()) bytes_by_site[site_name(findings.frame(site))] += mapping.end - mapping.begin;
  }
  for (const auto& [site, bytes] : bytes_by_site)
    if (bytes > result.site_bytes) {
      result.site = site;
      result.site_bytes = bytes;
    }
  return result;
}

void print_pins(const PinsOptions& options, const replay::Analysis& analysis, std::vector<pins::PinningBlock> live,
                const std::vector<replay::LiveMapping>& mappings) {
  const model::Profile& profile = analysis.profile();
  refuse_moment_after_end(options.trace, profile);
  const pins::PinnedMemory memory = read_pinned_memory(options.trace, analysis, std::move(live));
  StackNames names(profile, options.trace.symbols);
  std::vector<std::uint32_t> nodes = nodes_of_findings(profile);
  for (const replay::LiveMapping& mapping : mappings) nodes.push_back(mapping.node);
  names.resolve(nodes);
  const Findings findings(profile, names, options.call_sites);
  Grouping grouping = group_stacks(findings, memory.kept.by_node, options.by);
  const pins::HolderSets sets = memory.kept.sets.grouped(grouping.group_of_node);
  PinsAnswer answer{profile, names, findings, memory, std::move(grouping.names), {}, 0, {}, {}};
  answer.residency = read_pinned_residency(options.trace, analysis, memory);
  answer.mapped = find_mapped_by_program(findings, memory, mappings);
  answer.groups = pins::rank_groups(sets, memory.kept.by_node, grouping.group_of_node, answer.group_names.size());
  answer.shown = options.top == 0     ? answer.groups.size()
                 : options.trace.json ? std::min(options.top, answer.groups.size())
                                      : groups_worth_showing(answer, options.top);
  pins::add_companions(sets, answer.groups, answer.shown, kMaxCompanions);
  write_output(options.trace.output,
               options.trace.json ? dump(pins_json(options, answer)) : pins_text(options, answer));
}

}  // namespace

int run_pins(const PinsOptions& given) {
  return guarded(given.trace.trace, [&] {
    PinsOptions options = given;
    choose_known_moment(options.trace);
    std::vector<pins::PinningBlock> live;
    std::vector<replay::LiveMapping> mappings;
    return run_on_trace(
        options.trace,
        [&](const replay::Analysis& analysis) { print_pins(options, analysis, std::move(live), mappings); },
        collect_into(live), [&mappings](const replay::LiveMapping& mapping) { mappings.push_back(mapping); });
  });
}

}  // namespace heapprof::cli
