// Tables are columns of equal length. Each column is built as text and written at once.
#include "analyzer/export/firefox.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/base/base_name.h"
#include "analyzer/base/chosen_key_hash.h"

namespace heapprof::exporter {
namespace {

std::string milliseconds(std::uint64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64, ns / 1'000'000, ns % 1'000'000);
  return text;
}

class Table {
 public:
  explicit Table(std::initializer_list<const char*> columns) {
    for (const char* const name : columns) columns_.push_back({name, ""});
  }
  /// One value a column, as JSON.
  void row(std::initializer_list<std::string> values) {
    std::size_t i = 0;
    for (const std::string& value : values) {
      std::string& column = columns_[i++].second;
      if (!column.empty()) column += ',';
      column += value;
    }
    ++rows_;
  }
  /// `more`: further members, each with a comma in front.
  void write(Sink& output, const std::string& more = {}) const {
    output.write("{");
    for (const auto& [name, values] : columns_) {
      output.write("\"" + name + "\":[");
      output.write(values);
      output.write("],\n");
    }
    output.write("\"length\":" + std::to_string(rows_) + more + "}");
  }
  std::size_t rows() const noexcept { return rows_; }

 private:
  std::vector<std::pair<std::string, std::string>> columns_;
  std::size_t rows_ = 0;
};

class StringTable {
 public:
  std::string number(const std::string& text) {
    const auto [at, fresh] = index_.try_emplace(text, index_.size());
    if (fresh) {
      json_ += json_.empty() ? "" : ",\n";
      append_json(json_, text);
    }
    return std::to_string(at->second);
  }
  const std::string& json() const noexcept { return json_; }

 private:
  std::unordered_map<std::string, std::size_t, ChosenTextHash> index_;
  std::string json_;
};

/// "interval" in `meta`, one millisecond. The viewer excludes the end of a range of time, so the profile ends one
/// interval after its last event, as the viewer's own recordings do.
constexpr std::uint64_t kIntervalNs = 1'000'000;

void write_meta(const StackTable& table, Sink& output) {
  const model::Recording& recording = table.profile->recording;
  std::string text =
      "{\"meta\":{\"interval\":1,\"startTime\":" + milliseconds(recording.start_realtime_ns) +
      ",\"profilingStartTime\":" + milliseconds(table.profile->begin_ns()) +
      ",\"profilingEndTime\":" + milliseconds(table.profile->end_ns() + kIntervalNs) +
      ",\"processType\":0,\"stackwalk\":1,\"debug\":false,\"version\":27,\"preprocessedProfileVersion\":48,"
      "\"symbolicated\":true,\"importedFrom\":\"heapprof\",\"product\":";
  append_json(text, table.program.empty() ? "unknown program" : table.program);
  text += ",\"arguments\":";
  append_json(text, table.command);
  text +=
      ",\n\"extensions\":{\"id\":[],\"name\":[],\"baseURL\":[],\"length\":0},"
      "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
      "{\"name\":\"Native\",\"color\":\"blue\",\"subcategories\":[\"Other\"]}],\"markerSchema\":[],"
      "\"usesOnlyOneStackType\":true,\"doesNotUseFrameImplementation\":true,\"sourceCodeIsNotOnSearchfox\":true},\n"
      "\"libs\":[";
  for (std::size_t i = 1; i < table.modules.size(); ++i) {
    const std::string& path = table.modules[i];
    const std::string& build_id = table.profile->modules[i].build_id;
    text += i == 1 ? "\n{\"arch\":\"\",\"name\":" : ",\n{\"arch\":\"\",\"name\":";
    append_json(text, base_name(path));
    text += ",\"path\":";
    append_json(text, path);
    text += ",\"debugName\":";
    append_json(text, base_name(path));
    text += ",\"debugPath\":";
    append_json(text, path);
    text +=
        ",\"breakpadId\":\"\",\"codeId\":" + (build_id.empty() ? std::string("null") : "\"" + build_id + "\"") + "}";
  }
  output.write(text + "],\n\"pages\":[],\n");
}

/// The memory track: changes of the live heap, from 0 at the start of the profile.
void write_counters(const StackTable& table, Sink& output) {
  Table samples({"time", "count"});
  const std::vector<model::Timeline::Bucket>& buckets = table.profile->timeline.buckets;
  std::uint64_t before = 0;
  samples.row({milliseconds(table.profile->begin_ns()), "0"});
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::uint64_t end_ns = i + 1 < buckets.size() ? buckets[i + 1].start_ns : table.profile->end_ns();
    const auto change = static_cast<std::int64_t>(buckets[i].last_bytes - before);
    samples.row({milliseconds(std::max(end_ns, buckets[i].start_ns)), std::to_string(change)});
    before = buckets[i].last_bytes;
  }
  output.write("\"counters\":[{\"name\":\"malloc\",\"category\":\"Memory\",\"description\":\"Live heap\",\"pid\":\"" +
               std::to_string(table.profile->recording.pid) + "\",\"mainThreadIndex\":0,\"samples\":");
  samples.write(output);
  output.write("}],\n");
}

}  // namespace

void write_firefox(const StackTable& table, const EventSource& source, Sink& output) {
  const model::Profile& profile = *table.profile;
  StringTable strings;
  write_meta(table, output);
  write_counters(table, output);
  const std::string pid = std::to_string(profile.recording.pid);
  output.write("\"threads\":[{\"processType\":\"default\",\"processName\":");
  std::string text;
  append_json(text, table.program);
  output.write(text +
               ",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
               "\"pausedRanges\":[],\"name\":\"All threads\",\"isMainThread\":true,\"pid\":\"" +
               pid + "\",\"tid\":" + pid +
               ",\n\"samples\":{\"weightType\":\"samples\",\"weight\":null,\"stack\":[],\"time\":[],"
               "\"length\":0},\n\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],\"phase\":[],"
               "\"category\":[],\"length\":0},\n");

  Table resources({"lib", "name", "host", "type"});
  for (std::size_t i = 1; i < table.modules.size(); ++i)
    resources.row({std::to_string(i - 1), strings.number(base_name(table.modules[i])), "null", "1"});
  Table functions({"isJS", "relevantForJS", "name", "resource", "fileName", "lineNumber", "columnNumber"});
  for (const StackTable::Function& function : table.functions)
    functions.row({"false", "false", strings.number(function.name),
                   function.module == 0 ? "-1" : std::to_string(function.module - 1),
                   function.file.empty() ? "null" : strings.number(function.file), "null", "null"});
  Table frames({"address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol", "innerWindowID",
                "implementation", "line", "column"});
  std::vector<std::size_t> first_frame;  // of each location; those of its lines follow
  for (const StackTable::Location& location : table.locations) {
    first_frame.push_back(frames.rows());
    for (std::size_t i = 0; i < location.lines.size(); ++i) {
      const StackTable::Line& line = location.lines[i];
      frames.row({location.module == 0 ? "-1" : std::to_string(location.offset),
                  std::to_string(location.lines.size() - 1 - i), "1", "0", std::to_string(line.function), "null", "0",
                  "null", line.line == 0 ? "null" : std::to_string(line.line), "null"});
    }
  }
  // Parents come before their children, as the format requires.
  Table stacks({"frame", "category", "subcategory", "prefix"});
  std::vector<std::string> stack_of_node(profile.nodes.size(), "null");
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node) {
    const std::uint32_t location = table.location_of_node[node];
    if (location == model::kNoIndex) continue;
    std::string prefix = node == 0 ? "null" : stack_of_node[profile.nodes[node].parent];
    // Outermost frames have no prefix, even if the root has a location of its own (events without a stack).
    if (node != 0 && profile.nodes[node].parent == 0) prefix = "null";
    for (std::size_t i = table.locations[location].lines.size(); i-- > 0;) {
      stacks.row({std::to_string(first_frame[location] + i), "1", "0", prefix});
      prefix = std::to_string(stacks.rows() - 1);
    }
    stack_of_node[node] = prefix;
  }

  Table allocations({"time", "weight", "stack", "memoryAddress", "threadId"});
  source([&](std::span<const replay::ProfileEvent> events) {
    for (const replay::ProfileEvent& event : events) {
      if (event.kind == replay::ResolvedKind::kSample) continue;
      const bool is_free = event.kind == replay::ResolvedKind::kFree;
      allocations.row(
          {milliseconds(event.time_ns), (is_free ? "-" : "") + std::to_string(event.size), stack_of_node[event.node],
           std::to_string(event.address),
           std::to_string(event.thread < profile.threads.size() ? profile.threads[event.thread].tid : 0)});
    }
  });
  output.write("\"nativeAllocations\":");
  allocations.write(output, ",\"weightType\":\"bytes\"");
  output.write(",\n\"stackTable\":");
  stacks.write(output);
  output.write(",\n\"frameTable\":");
  frames.write(output);
  output.write(",\n\"funcTable\":");
  functions.write(output);
  output.write(",\n\"resourceTable\":");
  resources.write(output);
  output.write(
      ",\n\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],\"length\":0},\n"
      "\"stringArray\":[");
  output.write(strings.json());
  output.write("]}]}\n");
}

}  // namespace heapprof::exporter
