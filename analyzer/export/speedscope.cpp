#include "analyzer/export/speedscope.h"

#include <iterator>
#include <string>
#include <vector>

namespace heapprof::exporter {
namespace {

/// Indices in cost_columns(): the peak first, then the other bytes, then the counts.
constexpr std::size_t kOrder[] = {5, 3, 1, 7, 4, 2, 0, 6};

/// The line of each function, if all its frames have the same one; else 0.
std::vector<std::uint32_t> lines_of(const StackTable& table) {
  constexpr std::uint32_t kUnseen = UINT32_MAX;
  std::vector<std::uint32_t> lines(table.functions.size(), kUnseen);
  for (const StackTable::Location& location : table.locations)
    for (const StackTable::Line& line : location.lines) {
      std::uint32_t& known = lines[line.function];
      known = known == kUnseen || known == line.line ? line.line : 0;
    }
  return lines;
}

}  // namespace

void write_speedscope(const StackTable& table, Sink& output) {
  std::string text =
      "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"heapprof\",\"name\":";
  append_json(text, table.command);
  text += ",\"activeProfileIndex\":0,\n\"shared\":{\"frames\":[";
  const std::vector<std::uint32_t> lines = lines_of(table);
  for (std::size_t i = 0; i < table.functions.size(); ++i) {
    const StackTable::Function& function = table.functions[i];
    text += i == 0 ? "\n{\"name\":" : ",\n{\"name\":";
    append_json(text, function.name);
    if (!function.file.empty()) {
      text += ",\"file\":";
      append_json(text, function.file);
      if (lines[i] != 0) text += ",\"line\":" + std::to_string(lines[i]);
    }
    text += '}';
    output.write(text);
    text.clear();
  }
  output.write(text + "]},\n\"profiles\":[");

  std::vector<std::uint32_t> frames;
  for (std::size_t i = 0; i < std::size(kOrder); ++i) {
    const CostColumn& column = cost_columns()[kOrder[i]];
    std::uint64_t total = 0;
    for (const std::uint32_t node : table.stacks) total += table.profile->nodes[node].costs.*column.figure;
    text = i == 0 ? "\n" : ",\n";
    text += "{\"type\":\"sampled\",\"name\":";
    append_json(text, description_of(column, *table.profile));
    text += std::string(",\"unit\":\"") + (std::string_view(column.unit) == "bytes" ? "bytes" : "none") +
            "\",\"startValue\":0,\"endValue\":" + std::to_string(total) + ",\n\"samples\":[";
    std::string weights;
    for (const std::uint32_t node : table.stacks) {
      const std::uint64_t weight = table.profile->nodes[node].costs.*column.figure;
      if (weight == 0) continue;
      frames.clear();
      table.for_each_frame(node, [&](std::uint32_t location, std::uint32_t line) {
        frames.push_back(table.locations[location].lines[line].function);
      });
      text += weights.empty() ? "[" : ",\n[";
      for (std::size_t k = frames.size(); k-- > 0;) text += std::to_string(frames[k]) + (k == 0 ? "]" : ",");
      weights += (weights.empty() ? "" : ",") + std::to_string(weight);
      output.write(text);
      text.clear();
    }
    output.write(text + "],\n\"weights\":[" + weights + "]}");
  }
  output.write("]}\n");
}

}  // namespace heapprof::exporter
