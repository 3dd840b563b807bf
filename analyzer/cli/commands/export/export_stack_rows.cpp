#include "analyzer/cli/commands/export/export_stack_rows.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/base/base_name.h"
#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/cli/commands/shared/recording_set.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/export/stack_rows.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/origin.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using exporter::StackRow;
using render::clean_utf8;

/// The name of a frame in rows, without what differs between builds, such as lines. Python's have their file:
/// "<module> app.py".
std::string name_in_row(const Frame& frame, bool full_names) {
  return is_python(frame) ? clean_utf8(name_in_flame_graph(frame)) : name_in_table(frame, full_names);
}

/// The functions of a profile by number.
class FunctionNames {
 public:
  struct Function {
    std::string name;
    bool starts_program = false;  ///< or a thread
  };

  explicit FunctionNames(bool full_names) : full_names_(full_names) {}

  std::uint32_t number_of(const Frame& frame) {
    std::string key = frame.function.empty() ? unresolved_name(frame) : frame.function;
    for (const std::string& more : {frame.file, frame.module == nullptr ? std::string() : frame.module->path})
      (key += '\0') += more;
    const auto [at, is_new] = numbers_.try_emplace(std::move(key), static_cast<std::uint32_t>(functions_.size()));
    if (is_new) functions_.push_back({name_in_row(frame, full_names_), findings::is_start_up(frame.function)});
    return at->second;
  }
  const Function& operator[](std::uint32_t number) const { return functions_[number]; }
  std::size_t count() const noexcept { return functions_.size(); }

 private:
  const bool full_names_;
  std::unordered_map<std::string, std::uint32_t, ChosenTextHash> numbers_;
  std::vector<Function> functions_;
};

/// Stacks by the names of their frames. What depends on the libc or on the input is left out, so that stacks of
/// several hosts and builds are equal: the frames that start the program or a thread; and recursion: when a function
/// occurs again further inside, the frames between the two.
class NamedRows {
 public:
  NamedRows(const model::Profile& profile, const ExportOptions& options)
      : profile_(profile), names_(profile, options.trace.symbols), functions_(options.call_sites.view.full_names) {
    const std::vector<std::uint32_t> nodes = nodes_with_costs(profile);
    names_.resolve(nodes_of_findings(profile));
    functions_of_key_.resize(names_.key_count());
    const Findings findings(profile, names_, options.call_sites);
    const std::vector<findings::FrameRef> sites =
        findings::find_site_frames(findings.frames(), findings.helpers(), options.call_sites.view.scope());
    for (const std::uint32_t node : nodes) {
      std::string names = names_of(node);
      const auto [at, is_new] = row_of_names_.try_emplace(std::move(names), rows_.size());
      if (is_new) {
        StackRow& row = rows_.emplace_back();
        row.stacks = 0;
        row.names = at->first;
        if (sites[node].exists())
          row.site = name_in_row(findings.frame(sites[node]), options.call_sites.view.full_names);
      }
      rows_[at->second].stacks += 1;
      rows_[at->second].costs += profile.nodes[node].costs;
    }
  }

  std::vector<StackRow> take() { return std::move(rows_); }
  const std::vector<std::string>& warnings() const noexcept { return names_.warnings(); }

 private:
  std::string names_of(std::uint32_t node) {
    if (node == 0) return "[no stack]\n";
    std::vector<std::uint32_t> stack;  // innermost first
    names_.for_each_node(node, [&](std::uint32_t one, std::uint32_t key) {
      std::vector<std::uint32_t>& functions = functions_of_key_[key];
      if (functions.empty())
        for (const Frame& frame : names_.frames_of_node(one)) functions.push_back(functions_.number_of(frame));
      stack.insert(stack.end(), functions.begin(), functions.end());
    });
    const char* const truncated = profile_.nodes[node].truncated;
    if (truncated == nullptr) stack.resize(without_start(stack));
    std::vector<std::uint32_t> folded;  // outermost first
    position_.resize(functions_.count(), kNone);
    for (auto function = stack.rbegin(); function != stack.rend(); ++function) {
      const std::uint32_t before = position_[*function];
      if (before == kNone) {
        position_[*function] = static_cast<std::uint32_t>(folded.size());
        folded.push_back(*function);
        continue;
      }
      for (; folded.size() > before + 1; folded.pop_back()) position_[folded.back()] = kNone;
    }
    std::string names;
    for (auto function = folded.rbegin(); function != folded.rend(); ++function) {
      position_[*function] = kNone;
      names += functions_[*function].name + '\n';
    }
    if (truncated != nullptr) names += truncation_frame(truncated) + '\n';
    return names;
  }

  /// How many frames are inside of those that start the program or the thread. Of a program without symbols, _start
  /// has no name, but it calls such a function. A stack of nothing else stays as it is.
  std::size_t without_start(const std::vector<std::uint32_t>& stack) const {
    std::size_t end = stack.size();
    if (end >= 2 && functions_[stack[end - 2]].starts_program) --end;
    while (end > 0 && functions_[stack[end - 1]].starts_program) --end;
    return end == 0 ? stack.size() : end;
  }

  static constexpr std::uint32_t kNone = model::kNoIndex;
  const model::Profile& profile_;
  StackNames names_;
  FunctionNames functions_;
  std::vector<std::vector<std::uint32_t>> functions_of_key_;  // by key of names_
  std::vector<std::uint32_t> position_;                       // by function: in the stack that is folded
  std::unordered_map<std::string, std::size_t, ChosenTextHash> row_of_names_;
  std::vector<StackRow> rows_;
};

/// Most bytes at the peak first. Beyond the `top` stacks (0: all) with most of a kind of bytes, a row has the sum of
/// the others. There is always a row.
void rank_and_cut(std::vector<StackRow>& rows, std::size_t top) {
  std::ranges::sort(rows, [](const StackRow& a, const StackRow& b) {
    if (a.costs.peak_bytes != b.costs.peak_bytes) return a.costs.peak_bytes > b.costs.peak_bytes;
    if (a.costs.allocated_bytes != b.costs.allocated_bytes) return a.costs.allocated_bytes > b.costs.allocated_bytes;
    return a.names < b.names;
  });
  StackRow rest;
  rest.stacks = 0;
  if (top != 0 && rows.size() > top) {
    std::vector<bool> kept(rows.size(), false);
    for (const auto figure :
         {&model::Costs::peak_bytes, &model::Costs::leaked_bytes, &model::Costs::allocated_bytes}) {
      std::vector<std::size_t> order(rows.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return rows[i].costs.*figure; });
      for (std::size_t i = 0; i < top; ++i)
        if (rows[order[i]].costs.*figure != 0) kept[order[i]] = true;
    }
    std::vector<StackRow> shown;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (kept[i]) {
        shown.push_back(std::move(rows[i]));
        continue;
      }
      rest.stacks += rows[i].stacks;
      rest.costs += rows[i].costs;
    }
    rows = std::move(shown);
  }
  if (rest.stacks != 0 || rows.empty()) rows.push_back(rest);
}

exporter::RecordingColumns columns_of(const replay::Analysis& analysis, const Labels& labels) {
  const model::Profile& profile = analysis.profile();
  const model::Recording& recording = profile.recording;
  exporter::RecordingColumns columns;
  char id[17];
  std::snprintf(id, sizeof id, "%016" PRIx64, analysis.file().header().file_id);
  columns.recording = id;
  for (const model::Module& module : profile.modules)
    if (module.is_main) columns.build_id = module.build_id;
  columns.pid = recording.pid;
  columns.start_realtime_ns = recording.start_realtime_ns;
  columns.duration_ns = recording.duration_ns;
  columns.ended_by = profile.integrity.ended_by;
  columns.complete = profile.integrity.complete;
  for (const Labels& some : {recording.labels, labels})
    for (const auto& [key, value] : some) columns.labels[clean_utf8(key)] = clean_utf8(value);
  // Containers have names of their own, and many programs are python3.
  const auto label_or = [&](const char* key, const std::string& recorded) {
    const auto label = columns.labels.find(key);
    return label != columns.labels.end() ? label->second : clean_utf8(recorded);
  };
  columns.host = label_or("host", recording.host);
  columns.program = label_or("program", recording.program);
  return columns;
}

std::uint64_t realtime_ns() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count());
}

/// What all recordings are written to: opened when the first one has been read.
struct Output {
  explicit Output(const ExportOptions& options) : sink(options.trace.output), writer(options.row_format, sink) {}
  exporter::Sink sink;
  exporter::StackRowWriter writer;
};

}  // namespace

int run_export_stack_rows(const ExportOptions& options) {
  return guarded(options.trace.trace, [&] {
    std::vector<std::string> traces = options.trace.traces;
    int status = 0;
    if (traces.empty()) {
      traces = {options.trace.trace};
    } else {
      const RecordingSet set(traces);
      traces.clear();
      for (const RecordingSet::Member& member : set.members()) traces.push_back(member.path);
      if (set.unread() != 0) status = 1;
    }
    const std::uint64_t now_ns = realtime_ns();
    TraceOptions one = for_costs(options.trace);
    one.traces.clear();
    one.one_of_several = traces.size() > 1;
    std::optional<Output> output;
    for (const std::string& trace : traces) {
      one.trace = trace;
      const int result = run_on_trace(one, [&](const replay::Analysis& analysis) {
        NamedRows named(analysis.profile(), options);
        std::vector<StackRow> rows = named.take();
        rank_and_cut(rows, options.top);
        if (!output) output.emplace(options);
        exporter::RecordingColumns columns = columns_of(analysis, options.labels);
        columns.exported_realtime_ns = now_ns;
        output->writer.write(columns, rows);
      });
      if (result == 2) return 2;
      if (result != 0) status = 1;
    }
    if (output && !output->sink.close()) throw OutputError(output->sink.error());
    return status;
  });
}

}  // namespace heapprof::cli
