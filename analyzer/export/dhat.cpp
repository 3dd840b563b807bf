#include "analyzer/export/dhat.h"

#include <string>
#include <vector>

namespace heapprof::exporter {
namespace {

/// Figures of a stack that only its events show.
struct StackFigures {
  // Of all blocks of the stack: 213,504 that live for a day have more than 64 bits.
  __extension__ unsigned __int128 lifetime_ns = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t max_bytes = 0;
  std::uint64_t max_blocks = 0;  // when max_bytes were live
};

std::vector<StackFigures> figures_of(const model::Profile& profile, const EventSource& source) {
  std::vector<StackFigures> figures(profile.nodes.size());
  LiveBlocks live;
  source([&](std::span<const replay::ProfileEvent> events) {
    for (const replay::ProfileEvent& event : events) {
      if (event.kind == replay::ResolvedKind::kSample) continue;
      StackFigures& stack = figures[event.node];
      if (event.kind == replay::ResolvedKind::kAllocation) {
        live[event.address] = event;
        stack.live_bytes += event.size;
        ++stack.live_blocks;
        // As in DHAT: the first moment with the maximum of bytes.
        if (stack.live_bytes > stack.max_bytes || stack.max_bytes == 0) {
          stack.max_bytes = stack.live_bytes;
          stack.max_blocks = stack.live_blocks;
        }
        continue;
      }
      stack.live_bytes -= event.size;
      --stack.live_blocks;
      const auto block = live.find(event.address);
      if (block == live.end()) continue;
      stack.lifetime_ns += event.time_ns - block->second.time_ns;
      live.erase(block);
    }
  });
  const std::uint64_t end_ns = profile.end_ns();
  for (const auto& [address, block] : live)
    figures[block.node].lifetime_ns += end_ns > block.time_ns ? end_ns - block.time_ns : 0;
  return figures;
}

}  // namespace

void write_dhat(const StackTable& table, const EventSource& events, Sink& output) {
  const model::Profile& profile = *table.profile;
  std::string text =
      "{\"dhatFileVersion\":2,\"mode\":\"heap\",\"verb\":\"Allocated\",\"bklt\":true,\"bkacc\":false,\n"
      "\"tu\":\"\xc2\xb5s\",\"Mtu\":\"s\",\"tuth\":500,\n\"cmd\":";
  append_json(text, table.command);
  text += ",\"pid\":" + std::to_string(profile.recording.pid) +
          ",\"tg\":" + std::to_string(profile.peak_time_ns / 1000) +
          ",\"te\":" + std::to_string(profile.end_ns() / 1000) + ",\n\"pps\":[";

  // One frame for each line of each location: no two stacks are equal, which the viewer would refuse.
  std::vector<std::uint32_t> first_frame;
  std::uint32_t frames = 1;
  for (const StackTable::Location& location : table.locations) {
    first_frame.push_back(frames);
    frames += static_cast<std::uint32_t>(location.lines.size());
  }
  const std::vector<StackFigures> figures = figures_of(profile, events);
  bool first = true;
  for (const std::uint32_t node : table.stacks) {
    const model::Costs& costs = profile.nodes[node].costs;
    const StackFigures& stack = figures[node];
    const auto put = [&](const char* name, std::uint64_t value) {
      text += std::string(name) + std::to_string(value);
    };
    text += first ? "\n" : ",\n";
    first = false;
    put("{\"tb\":", costs.allocated_bytes);
    put(",\"tbk\":", costs.allocations);
    put(",\"tl\":", static_cast<std::uint64_t>(stack.lifetime_ns / 1000));
    put(",\"mb\":", stack.max_bytes);
    put(",\"mbk\":", stack.max_blocks);
    put(",\"gb\":", costs.peak_bytes);
    put(",\"gbk\":", costs.peak_blocks);
    put(",\"eb\":", costs.leaked_bytes);
    put(",\"ebk\":", costs.leaked_blocks);
    text += ",\"fs\":[";
    bool first_of_stack = true;
    table.for_each_frame(node, [&](std::uint32_t location, std::uint32_t line) {
      put(first_of_stack ? "" : ",", first_frame[location] + line);
      first_of_stack = false;
    });
    text += "]}";
    output.write(text);
    text.clear();
  }
  // dh_view requires at least one stack.
  if (table.stacks.empty())
    text += "\n{\"tb\":0,\"tbk\":0,\"tl\":0,\"mb\":0,\"mbk\":0,\"gb\":0,\"gbk\":0,\"eb\":0,\"ebk\":0,\"fs\":[]}";
  text += "],\n\"ftbl\":[\n\"[root]\"";
  for (std::uint32_t location = 0; location < table.locations.size(); ++location) {
    for (std::uint32_t line = 0; line < table.locations[location].lines.size(); ++line) {
      text += ",\n";
      append_json(text, frame_label(table, location, line));
      output.write(text);
      text.clear();
    }
  }
  output.write(text + "]}\n");
}

}  // namespace heapprof::exporter
