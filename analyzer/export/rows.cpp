#include "analyzer/export/rows.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/export/row_writer.h"
#include "analyzer/render/utf8.h"

namespace heapprof::exporter {
namespace {

std::string frames_json(const StackTable& table, std::uint32_t node) {
  std::string json = "[";
  table.for_each_frame(node, [&](std::uint32_t number, std::uint32_t index) {
    const StackTable::Location& location = table.locations[number];
    const StackTable::Line& line = location.lines[index];
    const StackTable::Function& function = table.functions[line.function];
    json += json.size() == 1 ? "{\"function\":" : ",{\"function\":";
    append_json(json, function.name);
    json += ",\"module\":";
    append_json(json, table.modules[location.module]);
    json += ",\"file\":";
    if (function.file.empty()) json += "null";
    else append_json(json, function.file);
    json += ",\"line\":" + (line.line == 0 ? std::string("null") : std::to_string(line.line));
    json += line.inlined ? ",\"inlined\":true}" : ",\"inlined\":false}";
  });
  return json + "]";
}

struct ThreadLabels {
  explicit ThreadLabels(const model::Profile& profile) : threads(profile.threads) {
    for (const model::Thread& thread : threads) names.push_back(render::clean_utf8(thread.name));
  }
  void write(std::uint32_t thread, RowWriter& row) const {
    if (thread >= threads.size()) {
      row.null();
      row.null();
      return;
    }
    row.number(threads[thread].tid);
    row.text(names[thread]);
  }
  const std::vector<model::Thread>& threads;
  std::vector<std::string> names;
};

void write_events(const StackTable& table, const EventSource& source, RowFormat format, Sink& output) {
  RowWriter row(format, {"time_ns", "event", "address", "size", "tid", "thread", "stack", "temporary"}, output);
  const ThreadLabels threads(*table.profile);
  source([&](std::span<const replay::ProfileEvent> events) {
    for (const replay::ProfileEvent& event : events) {
      if (event.kind == replay::ResolvedKind::kSample) continue;
      const bool is_free = event.kind == replay::ResolvedKind::kFree;
      row.number(event.time_ns);
      row.text(is_free ? "free" : "alloc");
      row.number(event.address);
      row.number(event.size);
      threads.write(event.thread, row);
      row.number(event.node);
      row.boolean(is_free && event.temporary);
      row.end_row();
    }
  });
}

void write_blocks(const StackTable& table, const EventSource& source, RowFormat format, Sink& output) {
  struct Block {
    std::uint64_t order;
    replay::ProfileEvent event;
  };
  std::unordered_map<std::uint64_t, Block, ChosenKeyHash> live;
  std::uint64_t order = 0;
  source([&](std::span<const replay::ProfileEvent> events) {
    for (const replay::ProfileEvent& event : events) {
      if (event.kind == replay::ResolvedKind::kAllocation) live[event.address] = {order++, event};
      else if (event.kind == replay::ResolvedKind::kFree) live.erase(event.address);
    }
  });
  std::vector<Block> blocks;
  blocks.reserve(live.size());
  for (const auto& [address, block] : live) blocks.push_back(block);
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.order < b.order; });

  RowWriter row(format, {"time_ns", "address", "size", "tid", "thread", "stack", "frames"}, output);
  const ThreadLabels threads(*table.profile);
  for (const Block& block : blocks) {
    row.number(block.event.time_ns);
    row.number(block.event.address);
    row.number(block.event.size);
    threads.write(block.event.thread, row);
    row.number(block.event.node);
    row.json(frames_json(table, block.event.node));
    row.end_row();
  }
}

void write_stacks(const StackTable& table, RowFormat format, Sink& output) {
  RowWriter row(format,
                {"stack", "peak_bytes", "peak_blocks", "leaked_bytes", "leaked_blocks", "allocated_bytes",
                 "allocations", "temporary_allocations", "temporary_bytes", "truncated", "frames"},
                output);
  for (const std::uint32_t node : table.stacks) {
    const model::Costs& costs = table.profile->nodes[node].costs;
    row.number(node);
    for (const std::uint64_t figure :
         {costs.peak_bytes, costs.peak_blocks, costs.leaked_bytes, costs.leaked_blocks, costs.allocated_bytes,
          costs.allocations, costs.temporary, costs.temporary_bytes})
      row.number(figure);
    if (table.profile->nodes[node].truncated == nullptr) row.null();
    else row.text(table.profile->nodes[node].truncated);
    row.json(frames_json(table, node));
    row.end_row();
  }
}

}  // namespace

void write_pinned_rows(const StackTable& table, std::span<const PinnedRow> rows, RowFormat format, Sink& output) {
  RowWriter row(
      format,
      {"stack", "alone_bytes", "shared_bytes", "overhead_bytes", "live_bytes", "usable_bytes", "blocks", "frames"},
      output);
  for (const PinnedRow& one : rows) {
    row.number(one.stack);
    row.number(one.alone_bytes);
    row.number(one.shared_bytes);
    row.signed_number(one.overhead_bytes);
    row.number(one.live_bytes);
    row.number(one.usable_bytes);
    row.number(one.blocks);
    row.json(frames_json(table, one.stack));
    row.end_row();
  }
}

void write_rows(const StackTable& table, const EventSource& events, Rows rows, RowFormat format, Sink& output) {
  switch (rows) {
    case Rows::kEvents: return write_events(table, events, format, output);
    case Rows::kBlocks: return write_blocks(table, events, format, output);
    case Rows::kStacks: return write_stacks(table, format, output);
    case Rows::kPinned: return;
  }
}

}  // namespace heapprof::exporter
