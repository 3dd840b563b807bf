#include "analyzer/export/callgrind.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

namespace heapprof::exporter {
namespace {

struct Event {
  const char* name;
  std::uint64_t model::Costs::*figure;
};
constexpr Event kEvents[] = {{"PeakBytes", &model::Costs::peak_bytes},
                             {"PeakBlocks", &model::Costs::peak_blocks},
                             {"LeakedBytes", &model::Costs::leaked_bytes},
                             {"LeakedBlocks", &model::Costs::leaked_blocks},
                             {"AllocatedBytes", &model::Costs::allocated_bytes},
                             {"Allocations", &model::Costs::allocations},
                             {"Temporary", &model::Costs::temporary}};

std::string figures_of(const model::Costs& costs) {
  std::string text;
  for (const Event& event : kEvents) text += " " + std::to_string(costs.*event.figure);
  return text;
}

/// Name compression of the format: "(7) name" at the first use, then "(7)".
class Names {
 public:
  std::string of(std::uint32_t number, const std::string& name) {
    std::string text = "(" + std::to_string(number + 1) + ")";
    if (known_.insert(number).second) text += " " + (name.empty() ? "???" : name);
    return text;
  }

 private:
  std::unordered_set<std::uint32_t> known_;
};

struct Call {
  std::uint32_t line;
  std::uint32_t callee;
  friend auto operator<=>(const Call&, const Call&) = default;
};
struct Function {
  std::map<std::uint32_t, model::Costs> lines;  // self cost, by line
  std::map<Call, model::Costs> calls;
};

}  // namespace

void write_callgrind(const StackTable& table, Sink& output) {
  // Files are numbered separately, because functions share files.
  std::map<std::string, std::uint32_t> files;
  for (const StackTable::Function& function : table.functions)
    files.try_emplace(function.file, static_cast<std::uint32_t>(files.size()));

  std::vector<Function> functions(table.functions.size());
  std::vector<StackTable::Line> frames;
  std::set<std::pair<std::uint32_t, std::uint32_t>> counted;
  for (const std::uint32_t node : table.stacks) {
    const model::Costs& costs = table.profile->nodes[node].costs;
    frames.clear();
    table.for_each_frame(node, [&](std::uint32_t location, std::uint32_t line) {
      const StackTable::Line& frame = table.locations[location].lines[line];
      if (frames.empty() || frames.back().function != frame.function) frames.push_back(frame);
    });
    functions[frames.front().function].lines[frames.front().line] += costs;
    counted.clear();
    for (std::size_t i = 1; i < frames.size(); ++i)
      if (counted.insert({frames[i].function, frames[i - 1].function}).second)
        functions[frames[i].function].calls[{frames[i].line, frames[i - 1].function}] += costs;
  }

  std::string events;
  for (const Event& event : kEvents) events += std::string(" ") + event.name;
  output.write(
      "# callgrind format\nversion: 1\ncreator: heapprof\npid: " + std::to_string(table.profile->recording.pid) +
      "\ncmd: " + table.command + "\npart: 1\npositions: line\nevents:" + events +
      "\nsummary:" + figures_of(table.profile->totals) + "\n");
  Names file_names, function_names, object_names;
  const auto position = [&](const char* prefix, std::uint32_t number) {
    const StackTable::Function& function = table.functions[number];
    const std::string type(prefix);
    return type + "ob=" + object_names.of(function.module, table.modules[function.module]) + "\n" +
           (type.empty() ? "fl=" : "cfi=") + file_names.of(files.at(function.file), function.file) + "\n" + type +
           "fn=" + function_names.of(number, function.name) + "\n";
  };
  for (std::uint32_t i = 0; i < functions.size(); ++i) {
    if (functions[i].lines.empty() && functions[i].calls.empty()) continue;
    output.write("\n" + position("", i));
    for (const auto& [line, costs] : functions[i].lines)
      output.write(std::to_string(line) + figures_of(costs) + "\n");
    for (const auto& [call, costs] : functions[i].calls)
      output.write(position("c", call.callee) +
                   "calls=" + std::to_string(std::max<std::uint64_t>(costs.allocations, 1)) + " 0\n" +
                   std::to_string(call.line) + figures_of(costs) + "\n");
  }
  output.write("\ntotals:" + figures_of(table.profile->totals) + "\n");
}

}  // namespace heapprof::exporter
