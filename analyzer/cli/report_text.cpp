#include "analyzer/cli/report_text.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "analyzer/render/text.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

using render::clean_utf8;
using render::clip_utf8;
using render::block_count;
using render::exact_number;
using render::human_bytes;
using render::human_time;
using render::percent;

constexpr std::size_t kWidth = 100;
constexpr std::size_t kFrameIndent = 6;
constexpr std::size_t kFunctionWidth = 58;
constexpr std::size_t kPlaceWidth = kWidth - kFrameIndent - kFunctionWidth - 2;

constexpr const char* kBold = "1";
constexpr const char* kDim = "2";
constexpr const char* kFunction = "36";
constexpr const char* kWarning = "33";

std::string padded(const std::string& text, std::size_t width) {
  const std::size_t length = render::length_utf8(text);
  return length >= width ? text : text + std::string(width - length, ' ');
}

std::string right(const std::string& text, std::size_t width) {
  const std::size_t length = render::length_utf8(text);
  return length >= width ? text : std::string(width - length, ' ') + text;
}

/// The end of a path says more than its beginning.
std::string clip_front(const std::string& text, std::size_t width) {
  const std::size_t length = render::length_utf8(text);
  if (length <= width) return text;
  std::size_t skip = length - width + 1;
  std::size_t at = 0;
  while (skip > 0 && at < text.size()) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
    --skip;
  }
  return "…" + text.substr(at);
}

const char* words_for_truncation(const char* truncated) {
  static constexpr std::pair<const char*, const char*> kWords[] = {
      {"max_depth", "deeper than HEAPPROF_MAX_DEPTH"},
      {"no_unwind_info", "code without unwind information"},
      {"bad_rule", "unwind information that cannot be read"},
      {"bad_address", "the stack leads nowhere from here"},
      {"unknown_stack", "on a stack of unknown bounds"},
      {"nested", "inside a signal handler that interrupted the recorder"},
      {"no_memory", "the recorder had no memory for it"},
      {"definition_lost", "its definition is in a damaged part of the trace"}};
  for (const auto& [name, words] : kWords)
    if (std::strcmp(name, truncated) == 0) return words;
  return truncated;
}

const char* heading_of(Cost cost, bool running) {
  switch (cost) {
    case Cost::kPeak: return "Live at the peak, by stack";
    case Cost::kLeaked: return running ? "Live now, by stack" : "Leaked (live at the end), by stack";
    case Cost::kAllocated: return "Allocated in all, by stack";
    case Cost::kAllocations: return "Number of allocations, by stack";
    case Cost::kTemporary: return "Temporary allocations, by stack";
  }
  return "";
}

}  // namespace

std::string ending_of(const model::Profile& profile) {
  const model::Integrity& integrity = profile.integrity;
  const std::string& how = integrity.ended_by;
  if (how == "exit")
    return integrity.end_status ? "exited with status " + std::to_string(*integrity.end_status) : "exited";
  if (how == "exec") return "executed another program";
  if (how == "signal") {
    const int number = integrity.end_status.value_or(0);
    const char* const name = number > 0 && number < 65 ? ::sigabbrev_np(number) : nullptr;
    return "ended by signal " + std::to_string(number) + (name == nullptr ? "" : std::string(" (SIG") + name + ")");
  }
  if (how == "stopped") return "recording stopped: " + integrity.stop_reason.value_or("no reason given");
  if (how == "running") return "still running";
  return "killed, or left by _exit";
}

std::string command_of(const model::Profile& profile) {
  const model::Recording& recording = profile.recording;
  std::string command;
  for (const std::string& argument : recording.command_line) {
    if (!command.empty()) command += ' ';
    const bool plain = !argument.empty() && argument.find_first_of(" \t\n'\"\\$`&|;<>()*?[]#~!{}") == std::string::npos;
    if (plain) {
      command += argument;
      continue;
    }
    command += '\'';
    for (const char c : argument) command += c == '\'' ? std::string("'\\''") : std::string(1, c);
    command += '\'';
  }
  if (command.empty()) command = recording.program.empty() ? "(unknown program)" : recording.program;
  if (recording.command_line_cut) command += " …";
  for (char& c : command)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  return clean_utf8(command);
}

std::string ReportText::paint(const char* code, const std::string& text) const {
  if (!style_.colour || text.empty()) return text;
  return std::string("\x1b[") + code + "m" + text + "\x1b[0m";
}

ReportText& ReportText::line(const std::string& text) {
  std::size_t end = text.size();
  while (end > 0 && text[end - 1] == ' ') --end;
  out_.append(text, 0, end);
  out_ += '\n';
  return *this;
}

void ReportText::row(const std::string& label, const std::string& value, const std::string& more) {
  line("  " + padded(label, 11) + paint(kBold, right(value, 10)) + (more.empty() ? "" : "  " + more));
}

void ReportText::title() {
  line(paint(kBold, clip_utf8(command_of(profile_), kWidth)));
  std::string what = "pid " + std::to_string(profile_.recording.pid) + ", " + human_time(profile_.recording.duration_ns) +
                     ", " + ending_of(profile_);
  line(clip_utf8(clean_utf8(what), kWidth));
  if (profile_.slice)
    line("only from " + human_time(profile_.slice->from_ns) + " to " + human_time(profile_.slice->to_ns));
}

ReportText& ReportText::head() {
  title();
  line();
  const model::HeapTotals& heap = profile_.heap;
  const bool running = profile_.integrity.ended_by == "running";
  row("peak", human_bytes(heap.peak_bytes),
      "in " + block_count(heap.peak_blocks) + ", at " + human_time(heap.peak_time_ns));
  row(running ? "live now" : "leaked", human_bytes(heap.leaked_bytes),
      "in " + block_count(heap.leaked_blocks) +
          (profile_.slice ? ", allocated in the slice and live at its end" : running ? "" : ", live at the end"));
  std::string rate;
  if (profile_.recording.duration_ns >= 1'000'000) {
    const std::uint64_t duration_ns =
        profile_.slice ? std::max<std::uint64_t>(profile_.slice->to_ns - profile_.slice->from_ns, 1'000) : profile_.recording.duration_ns;
    const double seconds = static_cast<double>(duration_ns) / 1e9;
    rate = ", " + exact_number(static_cast<std::uint64_t>(static_cast<double>(heap.allocations) / seconds)) + " a second";
  }
  row("allocated", human_bytes(heap.allocated_bytes), "in " + exact_number(heap.allocations) + (heap.allocations == 1 ? " allocation" : " allocations") + rate);
  row("temporary", percent(heap.temporary_allocations, heap.allocations),
      exact_number(heap.temporary_allocations) + " freed before their thread's next allocation");
  if (heap.failed != 0) row("failed", exact_number(heap.failed), "calls found no memory");
  if (profile_.mmap.mappings != 0)
    row("mappings", human_bytes(profile_.mmap.peak_bytes),
        "at their peak, " + human_bytes(profile_.mmap.live_bytes) + (running ? " live now" : " live at the end"));
  if (profile_.timeline.peak_rss_bytes != 0)
    row("resident", human_bytes(profile_.timeline.peak_rss_bytes), "highest of " + exact_number(profile_.timeline.samples) +
                                                                        " samples");
  return *this;
}

ReportText& ReportText::leak_head() {
  title();
  line();
  const bool running = profile_.integrity.ended_by == "running";
  if (profile_.totals.leaked_blocks == 0) {
    line(running ? "  Nothing is live." : "  Nothing was live at the end: no leaks.");
    return *this;
  }
  row(running ? "live now" : "leaked", human_bytes(profile_.totals.leaked_bytes),
      "in " + block_count(profile_.totals.leaked_blocks) +
          (running ? "" : ", live at the end (reachable or not)"));
  return *this;
}

void ReportText::frame(const Frame& frame) {
  std::string place;
  std::string function = clean_utf8(frame.function);
  if (function.empty()) {
    function = clean_utf8(place_of(frame));
  } else if (!frame.file.empty()) {
    place = clean_utf8(base_name(frame.file)) + (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
  } else if (!frame.module->path.empty()) {
    place = "in " + clean_utf8(base_name(frame.module->path));
  }
  const std::string mark = frame.inlined ? " (inlined)" : frame.guessed ? " (guessed)" : "";
  function = render::short_name(function);
  const bool known = !frame.function.empty();
  std::string text(kFrameIndent, ' ');
  if (place.empty() && mark.empty()) {
    text += paint(known ? kFunction : kDim, clip_utf8(function, kWidth - kFrameIndent));
  } else {
    const std::string clipped = clip_utf8(function, kFunctionWidth);
    const std::size_t length = render::length_utf8(clipped);
    text += paint(known ? kFunction : kDim, clipped) + std::string(kFunctionWidth - length + 2, ' ');
    text += paint(kDim, clip_front(place, kPlaceWidth - mark.size()) + mark);
  }
  line(text);
}

ReportText& ReportText::stacks(Cost cost, const std::vector<RankedStack>& stacks, std::size_t of, const Names& names) {
  const RankedStack total = figures_of(profile_.totals, cost);
  const bool by_blocks = ranks_by_blocks(cost);
  line();
  std::string heading = heading_of(cost, profile_.integrity.ended_by == "running");
  if (stacks.size() < of) heading += " (" + std::to_string(stacks.size()) + " of " + exact_number(of) + " stacks)";
  line(paint(kBold, heading));
  if (stacks.empty()) line("  none");
  std::size_t number = 0;
  for (const RankedStack& stack : stacks) {
    const std::string main = by_blocks ? exact_number(stack.blocks) : human_bytes(stack.bytes);
    const std::string share = by_blocks ? percent(stack.blocks, total.blocks) : percent(stack.bytes, total.bytes);
    const std::string more = by_blocks ? human_bytes(stack.bytes) : "in " + block_count(stack.blocks);
    line();
    line(right(std::to_string(++number), 3) + "  " + paint(kBold, right(main, 10)) + "  " + right(share, 6) + "  " + more);
    const std::vector<Frame> frames = names.stack(stack.node);
    std::size_t shown = frames.size();
    std::size_t tail = 0;
    if (style_.frames != 0 && frames.size() > style_.frames) {
      tail = std::min<std::size_t>(2, style_.frames / 3);
      shown = style_.frames - tail - 1;
    }
    for (std::size_t i = 0; i < shown; ++i) frame(frames[i]);
    if (shown < frames.size()) {
      line(std::string(kFrameIndent, ' ') +
           paint(kDim, "… " + std::to_string(frames.size() - shown - tail) + " more frames …"));
      for (std::size_t i = frames.size() - tail; i < frames.size(); ++i) frame(frames[i]);
    }
    const char* const truncated = profile_.nodes[stack.node].truncated;
    if (truncated != nullptr)
      line(std::string(kFrameIndent, ' ') + paint(kDim, std::string("(stack cut: ") + words_for_truncation(truncated) + ")"));
    else if (frames.empty())
      line(std::string(kFrameIndent, ' ') + paint(kDim, "(no stack recorded)"));
  }
  return *this;
}

void ReportText::paragraph(const std::string& text, std::size_t indent) {
  std::string rest = clean_utf8(text);
  bool first = true;
  while (!rest.empty()) {
    const std::size_t room = kWidth - indent;
    std::size_t cut = rest.size();
    if (render::length_utf8(rest) > room) {
      // Bytes, not columns: text that is not ASCII wraps a little early.
      cut = rest.rfind(' ', room);
      if (cut == std::string::npos || cut == 0) cut = std::min(rest.find(' ', room), rest.size());
    }
    line((first ? std::string(indent - 2, ' ') + "- " : std::string(indent, ' ')) + rest.substr(0, cut));
    rest.erase(0, cut == rest.size() ? cut : cut + 1);
    first = false;
  }
}

ReportText& ReportText::notes(const std::vector<std::string>& symbol_warnings) {
  const model::Integrity& integrity = profile_.integrity;
  if (integrity.complete && integrity.notes.empty() && symbol_warnings.empty()) return *this;
  line();
  if (!integrity.complete) {
    std::string what = "Something that was recorded is missing";
    if (integrity.events_lost && *integrity.events_lost != 0)
      what += ": " + exact_number(*integrity.events_lost) + " events lost";
    else if (!integrity.events_lost)
      what += ": how many events cannot be known";
    if (integrity.bytes_damaged != 0) what += ", " + exact_number(integrity.bytes_damaged) + " bytes damaged";
    line(paint(kWarning, what + "."));
  } else {
    line(paint(kBold, "Notes"));
  }
  for (const std::string& note : integrity.notes) paragraph(note, 4);
  for (const std::string& warning : symbol_warnings) paragraph(warning, 4);
  return *this;
}

ReportText& ReportText::description() {
  const model::Recording& recording = profile_.recording;
  const auto field = [&](const std::string& label, const std::string& value) {
    if (!value.empty()) line("  " + padded(label, 16) + clip_utf8(clean_utf8(value), kWidth - 18));
  };
  title();
  line();
  field("program", recording.program);
  field("command line", command_of(profile_));
  field("folder", recording.working_directory);
  field("host", recording.host);
  if (recording.start_realtime_ns != 0) {
    const auto seconds = static_cast<std::time_t>(recording.start_realtime_ns / 1'000'000'000);
    std::tm parts{};
    char text[64] = "";
    if (::gmtime_r(&seconds, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
    field("started", text);
  }
  field("duration", human_time(recording.duration_ns));
  field("ended", ending_of(profile_));
  field("process", "pid " + std::to_string(recording.pid) + ", parent " + std::to_string(recording.parent_pid) +
                       (recording.forked_child ? ", forked from a recorded one" : ""));
  field("events", exact_number(profile_.events()));
  std::string size = human_bytes(recording.trace_bytes) + ", version " + recording.trace_version + ", clock " + recording.clock;
  if (recording.compacted)
    size += ", compacted from " + human_bytes(recording.original_bytes) +
            (recording.rounded ? ", times rounded to microseconds, addresses are numbers of blocks" : "");
  field("trace", size);
  field("complete", profile_.integrity.complete ? "yes" : "no, see below");

  line();
  line(paint(kBold, "Threads"));
  line("  index        tid  allocations   allocated  name");
  for (std::size_t i = 0; i < profile_.threads.size(); ++i) {
    const model::Thread& thread = profile_.threads[i];
    line("  " + right(std::to_string(i), 5) + right(std::to_string(thread.tid), 11) +
         right(exact_number(thread.allocations), 13) + right(human_bytes(thread.allocated_bytes), 12) + "  " +
         clip_utf8(clean_utf8(thread.name), 40));
  }
  line();
  line(paint(kBold, "Modules"));
  for (const model::Module& module : profile_.modules) {
    if (module.path.empty()) continue;
    char address[32];
    std::snprintf(address, sizeof address, "%016llx", static_cast<unsigned long long>(module.first_address));
    const std::string id = module.build_id.empty() ? "no build id" : module.build_id.substr(0, 16);
    line("  " + std::string(address) + "  " + padded(id, 16) + "  " + clip_front(clean_utf8(module.path), kWidth - 38) +
         (module.loads > 1 ? " (" + std::to_string(module.loads) + " times)" : ""));
  }
  if (!recording.settings.empty()) {
    line();
    line(paint(kBold, "Settings"));
    for (const auto& [name, value] : recording.settings)
      line("  " + padded(clean_utf8(name), 26) + clip_utf8(clean_utf8(value), kWidth - 28));
  }
  return *this;
}

}  // namespace heapprof::cli
