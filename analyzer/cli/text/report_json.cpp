#include "analyzer/cli/text/report_json.h"

#include <cstring>
#include <unordered_map>
#include <utility>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/export/sink.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

double share_of(const RankedStack& part, const RankedStack& total, Cost cost) {
  const std::uint64_t of = ranks_by_blocks(cost) ? total.blocks : total.bytes;
  const std::uint64_t share = ranks_by_blocks(cost) ? part.blocks : part.bytes;
  return of == 0 ? 0 : static_cast<double>(share) / static_cast<double>(of);
}

std::string name_of(Cost cost) {
  for (const auto& [name, value] : cost_names())
    if (value == cost) return name;
  return {};
}

/// Peaks of several recordings are at different times, so they have no sum.
Json heap_json(const model::HeapTotals& heap, bool together) {
  Json json = {{"allocations", heap.allocations},
               {"allocated_bytes", heap.allocated_bytes},
               {"frees", heap.frees},
               {"failed", heap.failed}};
  if (!together) {
    json["peak_bytes"] = heap.peak_bytes;
    json["peak_time_ns"] = heap.peak_time_ns;
    json["peak_blocks"] = heap.peak_blocks;
  }
  json["leaked_bytes"] = heap.leaked_bytes;
  json["leaked_blocks"] = heap.leaked_blocks;
  json["temporary_allocations"] = heap.temporary_allocations;
  json["unmatched_frees"] = heap.unmatched_frees;
  json["implied_frees"] = heap.implied_frees;
  return json;
}

Json mmap_json(const model::MmapTotals& mmap) {
  Json json;
  json["mapped_bytes"] = mmap.mapped_bytes;
  json["peak_bytes"] = mmap.peak_bytes;
  json["live_bytes"] = mmap.live_bytes;
  json["peak_time_ns"] = mmap.peak_time_ns;
  json["mappings"] = mmap.mappings;
  json["reserved_bytes"] = mmap.reserved_bytes;
  json["from_allocator_bytes"] = mmap.from_allocator_bytes;
  return json;
}

/// As the variables HEAPPROF_...
Json settings_json(const model::Recording& recording) {
  Json json = Json::object();
  for (const auto& [name, value] : recording.settings) json[name] = value;
  return json;
}

}  // namespace

Json frame_json(const Frame& frame) {
  Json json;
  json["function"] = frame.function;
  json["module"] = frame.module == nullptr ? "" : frame.module->path;
  json["build_id"] = text_or_null(frame.module == nullptr ? "" : frame.module->build_id);
  json["address"] = frame.address;
  json["offset"] = frame.offset;
  json["file"] = text_or_null(frame.file);
  json["line"] = frame.line > 0 ? Json(frame.line) : Json(nullptr);
  json["inlined"] = frame.inlined;
  if (frame.guessed) json["guessed"] = true;
  if (frame.function_begin != 0) json["function_begin"] = frame.function_begin;
  return json;
}

Json stack_json(const StackNames& names, std::uint32_t node) {
  Json frames = Json::array();
  for (const Frame& frame : names.stack(node)) frames.push_back(frame_json(frame));
  return frames;
}

Json StackList::stack(std::uint32_t node) {
  if (!shared_) return stack_json(names_, node);
  Json positions = Json::array();
  for (const Frame& frame : names_.stack(node)) {
    Json json = frame_json(frame);
    const auto [known, fresh] = positions_.try_emplace(line_of(json), frames_.size());
    if (fresh) frames_.push_back(std::move(json));
    positions.push_back(known->second);
  }
  return positions;
}

void StackList::add_frames_to(Json& json) {
  if (shared_) json["frames"] = std::move(frames_);
}

const char* kind_word(model::Kind kind) noexcept {
  return kind == model::Kind::kHeap ? "heap" : kind == model::Kind::kMmap ? "mmap" : "all";
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json json_document() {
  Json json;
  json["format_version"] = kJsonFormatVersion;
  if (!used_project_file.empty()) json["project_file"] = used_project_file;
  return json;
}

void set_renamed(Json& json, const char* name, const char* old_name, const Json& value) {
  json[name] = value;
  json[old_name] = value;
}

void add_processes(Json& json, const model::Together& together) {
  Json& list = json["processes"] = Json::array();
  for (const model::ProcessFigures& process : together.processes)
    list.push_back({{"pid", process.pid},
                    {"parent_pid", process.parent_pid},
                    {"program", process.program},
                    {"command", process.command},
                    {"began", process.began},
                    {"from", process.from < 0 ? Json(nullptr) : Json(process.from)},
                    {"start_ns", process.start_ns},
                    {"end_ns", process.end_ns},
                    {"end", process.end},
                    {"complete", process.complete},
                    {"events", process.events},
                    {"peak_bytes", process.peak_bytes},
                    {"peak_rss_bytes", process.peak_rss_bytes != 0 ? Json(process.peak_rss_bytes) : Json(nullptr)},
                    {"leaked_bytes", process.leaked_bytes},
                    {"trace", process.trace}});
  json["unread"] = together.unread;
  json["copies"] = together.copies;
  json["outside"] = together.outside;
  json["notes"] = together.notes;
}

Json head_json(const model::Profile& profile) {
  Json json = json_document();
  if (profile.together) {
    add_processes(json, *profile.together);
    json["events"] = profile.events();
    json["heap"] = heap_json(profile.heap, true);
  } else {
    json["program"] = profile.recording.program;
    json["pid"] = profile.recording.pid;
  }
  json["duration_ns"] = profile.recording.duration_ns;
  if (!profile.together) json["integrity"] = integrity_json(profile.integrity);
  json["slice"] =
      profile.slice ? Json{{"from_ns", profile.slice->from_ns}, {"to_ns", profile.slice->to_ns}} : Json(nullptr);
  json["live_at_ns"] = profile.live_at_ns ? Json(*profile.live_at_ns) : Json(nullptr);
  json["survivors_ns"] = profile.survivors_ns ? Json(*profile.survivors_ns) : Json(nullptr);
  json["selected"] = profile.selection_text.empty() ? Json(nullptr) : Json(profile.selection_text);
  return json;
}

Json integrity_json(const model::Integrity& integrity) {
  Json json;
  json["complete"] = integrity.complete;
  json["ended_by"] = integrity.ended_by;
  json["end_status"] = integrity.end_status ? Json(*integrity.end_status) : Json(nullptr);
  json["stop_reason"] = integrity.stop_reason ? Json(*integrity.stop_reason) : Json(nullptr);
  json["events_lost"] = integrity.events_lost ? Json(*integrity.events_lost) : Json(nullptr);
  json["bytes_damaged"] = integrity.bytes_damaged;
  json["notes"] = integrity.notes;
  return json;
}

Json threads_json(const model::Profile& profile) {
  Json list = Json::array();
  for (std::size_t index = 0; index < profile.threads.size(); ++index) {
    const model::Thread& thread = profile.threads[index];
    list.push_back({{"index", index},
                    {"tid", thread.tid},
                    {"name", thread.name},
                    {"start_ns", thread.start_ns},
                    {"allocations", thread.allocations},
                    {"allocated_bytes", thread.allocated_bytes}});
  }
  return list;
}

Json report_json(const model::Profile& profile, Cost cost, const std::vector<RankedStack>& stacks,
                 const StackNames& names) {
  Json json = head_json(profile);
  if (!profile.together) {
    json["events"] = profile.events();
    json["heap"] = heap_json(profile.heap, false);
    json["mmap"] = mmap_json(profile.mmap);
    const auto known = [](std::uint64_t bytes) { return bytes != 0 ? Json(bytes) : Json(nullptr); };
    json["rss_bytes"] = known(profile.is_moment() ? profile.resident.bytes : 0);
    json["peak_rss_bytes"] = known(profile.highest_resident_bytes());
    json["threads"] = threads_json(profile);
    json["settings"] = settings_json(profile.recording);
  }
  json["kind"] = kind_word(profile.kind);
  json["cost"] = name_of(cost);
  const RankedStack total = figures_of(profile.totals, cost);
  json["total"] = {{"bytes", total.bytes}, {"blocks", total.blocks}};
  Json& top = json["top"] = Json::array();
  for (const RankedStack& stack : stacks) {
    Json entry;
    entry["bytes"] = stack.bytes;
    entry["blocks"] = stack.blocks;
    entry["share"] = share_of(stack, total, cost);
    const char* const truncated = profile.nodes[stack.node].truncated;
    entry["truncated"] = truncated == nullptr ? Json(nullptr) : Json(truncated);
    top.push_back(std::move(entry));
  }
  json["symbol_warnings"] = names.warnings();
  return json;
}

namespace {

/// Frames as JSON text; or, if `shared`, their positions in a list of different frames.
class FrameTexts {
 public:
  explicit FrameTexts(bool shared) : shared_(shared) {}

  void append(std::string& out, const Frame& frame) {
    std::string text = line_of(frame_json(frame));
    if (!shared_) {
      out += text;
      return;
    }
    const auto [known, fresh] = positions_.try_emplace(std::move(text), positions_.size());
    if (fresh) order_.push_back(&known->first);
    out += std::to_string(known->second);
  }
  const std::vector<const std::string*>& frames() const noexcept { return order_; }

 private:
  const bool shared_;
  std::unordered_map<std::string, std::size_t, ChosenTextHash> positions_;
  std::vector<const std::string*> order_;
};

/// Between two frames of a stack.
constexpr const char* kStackGap = ",\n        ";
constexpr const char* kSharedGap = ",";

/// The frames of a node, innermost first, as the text of a stack.
std::string text_of_node(const StackNames& names, std::uint32_t node, FrameTexts& texts, const char* gap) {
  std::string text;
  for (const Frame& frame : names.frames_of_node(node)) {
    if (!text.empty()) text += gap;
    texts.append(text, frame);
  }
  return text;
}

}  // namespace

FramesSize frames_size(const std::vector<RankedStack>& stacks, const StackNames& names) {
  constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  std::vector<FramesSize> by_key(names.key_count(), {kUnknown, 0});
  FrameTexts texts(false);
  FramesSize sum;
  for (const RankedStack& stack : stacks)
    names.for_each_node(stack.node, [&](std::uint32_t node, std::uint32_t key) {
      FramesSize& size = by_key[key];
      if (size.frames == kUnknown) {
        size.frames = names.frames_of_node(node).size();
        size.bytes =
            text_of_node(names, node, texts, kStackGap).size() + (size.frames == 0 ? 0 : std::strlen(kStackGap));
      }
      sum.frames += size.frames;
      sum.bytes += size.bytes;
    });
  return sum;
}

std::string size_warning(const FramesSize& size) {
  // Python's json module needs 700 bytes for a frame of 285 bytes, text included.
  constexpr std::uint64_t kMaxFrames = 1'000'000;
  if (size.frames <= kMaxFrames) return {};
  return "the stacks have " + render::exact_number(size.frames) + " frames, which are " +
         render::human_bytes(size.bytes) +
         " of JSON; a program that loads it whole needs more than twice that memory. " +
         "--shared-frames writes each frame once; --top limits the stacks";
}

void write_report(const std::string& output, Json report, const std::vector<RankedStack>& stacks,
                  const StackNames& names, bool shared) {
  if (!shared)
    if (const std::string warning = size_warning(frames_size(stacks, names)); !warning.empty())
      print_message(warning);
  const Json top = std::move(report["top"]);
  report.erase("top");
  std::string head = dump(report);
  head.resize(head.size() - std::strlen("\n}\n"));
  exporter::Sink out(output);
  out.write(head);
  FrameTexts texts(shared);
  std::vector<std::string> text_of_key(names.key_count());
  const char* const gap = shared ? kSharedGap : kStackGap;
  out.write(",\n  \"top\": [");
  for (std::size_t i = 0; i < stacks.size() && out.ok(); ++i) {
    std::string entry = line_of(top[i]);
    entry.pop_back();
    out.write(i == 0 ? "\n    " : ",\n    ");
    out.write(entry);
    out.write(shared ? ",\"stack\":[" : ",\"stack\":[\n        ");
    bool first = true;
    names.for_each_node(stacks[i].node, [&](std::uint32_t node, std::uint32_t key) {
      std::string& text = text_of_key[key];
      if (text.empty()) text = text_of_node(names, node, texts, gap);
      if (text.empty()) return;
      if (!std::exchange(first, false)) out.write(gap);
      out.write(text);
    });
    out.write("]}");
  }
  out.write(stacks.empty() ? "]" : "\n  ]");
  if (shared) {
    out.write(",\n  \"frames\": [");
    for (const std::string* const frame : texts.frames()) {
      out.write(frame == texts.frames().front() ? "\n    " : ",\n    ");
      out.write(*frame);
    }
    out.write(texts.frames().empty() ? "]" : "\n  ]");
  }
  out.write("\n}\n");
  if (!out.close()) throw OutputError(out.error());
}

Json info_json(const model::Profile& profile) {
  const model::Recording& recording = profile.recording;
  Json json = json_document();
  json["program"] = recording.program;
  json["command_line"] = recording.command_line;
  set_renamed(json, "command_line_truncated", "command_line_cut", recording.command_line_cut);
  json["command_line_omitted"] = recording.command_line_omitted;
  json["working_directory"] = recording.working_directory;
  json["host"] = recording.host;
  Json& labels = json["labels"] = Json::object();
  for (const auto& [key, value] : recording.labels) labels[key] = value;
  json["pid"] = recording.pid;
  json["parent_pid"] = recording.parent_pid;
  json["start_realtime_ns"] = recording.start_realtime_ns;
  json["duration_ns"] = recording.duration_ns;
  json["trace_bytes"] = recording.trace_bytes;
  json["trace_version"] = recording.trace_version;
  json["compacted"] = recording.compacted;
  if (recording.compacted) {
    json["rounded"] = recording.rounded;
    json["original_bytes"] = recording.original_bytes;
  }
  json["clock"] = recording.clock;
  json["forked_child"] = recording.forked_child;
  json["integrity"] = integrity_json(profile.integrity);
  Json& interpreters = json["python"] = Json::array();
  for (const model::Recording::PythonInterpreter& python : recording.python_interpreters)
    interpreters.push_back({{"version", text_or_null(python.version)},
                            {"frames_recorded", python.why_off.empty()},
                            {"reason", text_or_null(python.why_off)}});
  json["events"] = profile.events();
  json["snapshots"] = profile.timeline.snapshots;
  Json& marks = json["marks"] = Json::array();
  for (const model::Timeline::Mark& mark : profile.timeline.marks) {
    using Kind = model::Timeline::Mark::Kind;
    marks.push_back({{"time_ns", mark.time_ns},
                     {"kind", mark.kind == Kind::kUser     ? "mark"
                              : mark.kind == Kind::kPaused ? "paused"
                                                           : "resumed"},
                     {"text", mark.kind == Kind::kUser ? Json(mark.text) : Json(nullptr)}});
  }
  json["settings"] = settings_json(recording);
  json["threads"] = threads_json(profile);
  Json& modules = json["modules"] = Json::array();
  for (const model::Module& module : profile.modules) {
    if (module.path.empty() || module.is_python) continue;
    modules.push_back({{"path", module.path},
                       {"build_id", text_or_null(module.build_id)},
                       {"first_address", module.first_address},
                       {"map_bytes", module.map_bytes},
                       {"load_bias", module.load_bias},
                       {"loads", module.loads},
                       {"main", module.is_main}});
  }
  return json;
}

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace heapprof::cli
