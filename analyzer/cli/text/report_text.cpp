#include "analyzer/cli/text/report_text.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "analyzer/cli/text/call_sites.h"
#include "analyzer/render/text.h"
#include "analyzer/render/units.h"
#include "analyzer/render/wrap.h"
#include "analyzer/symbols/return_type.h"

namespace heapprof::cli {
namespace {

using render::clean_utf8;
using render::clip_utf8;
using render::block_count;
using render::exact_number;
using render::human_bytes;
using render::human_time;
using render::percent;

constexpr std::size_t kFrameIndent = 6;

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

std::string allocations(std::uint64_t count) {
  return exact_number(count) + (count == 1 ? " allocation" : " allocations");
}

std::string heading_of(Cost cost, const model::Profile& profile) {
  switch (cost) {
    case Cost::kPeak:
      if (profile.is_moment()) return "Live at " + human_time(*profile.live_at_ns) + ", by stack";
      return profile.slice ? "Live at the slice's peak, by stack" : "Live at the peak, by stack";
    case Cost::kLeaked: return live_words(profile) + ", by stack";
    case Cost::kAllocated: return "Allocated in all, by stack";
    case Cost::kAllocations:
      return profile.kind == model::Kind::kHeap   ? "Number of allocations, by stack"
             : profile.kind == model::Kind::kMmap ? "Number of mappings, by stack"
                                                  : "Number of allocations and mappings, by stack";
    case Cost::kTemporary: return "Temporary allocations, by stack";
  }
  return "";
}

/// "+0x2a": where in a function without name, as its name is where it begins.
std::string distance_into_function(const Frame& frame) {
  char text[24];
  std::snprintf(text, sizeof text, "+0x%" PRIx64, frame.offset - frame.function_begin);
  return text;
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
  if (how == "running") return profile.recording.compacted ? "was running when this was written" : "still running";
  return "killed, or left by _exit";
}

std::string command_of(const model::Profile& profile) {
  const model::Recording& recording = profile.recording;
  std::string command;
  for (const std::string& argument : recording.command_line) {
    if (!command.empty()) command += ' ';
    const bool plain =
        !argument.empty() && argument.find_first_of(" \t\n'\"\\$`&|;<>()*?[]#~!{}") == std::string::npos;
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

std::string live_words(const model::Profile& profile) {
  if (profile.slice) return "Live at the end of the slice, allocated in it";
  if (profile.integrity.ended_by == "running") return "Live now";
  return "Leaked (live at the end)";
}

std::string short_function(const std::string& function) {
  return render::short_name(clean_utf8(symbols::without_return_type(function)));
}

std::string one_line(const Frame& frame) {
  if (frame.function.empty()) return clean_utf8(unresolved_name(frame));
  const std::string text = short_function(frame.function);
  if (!frame.file.empty())
    return text + " at " + clean_utf8(base_name(frame.file)) +
           (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
  return frame.module->path.empty() ? text : text + " in " + clean_utf8(base_name(frame.module->path));
}

std::string ReportText::text() const { return plain(out_); }

std::string ReportText::clip(const std::string& text, std::size_t width) const {
  const std::string fitting = plain(text);
  if (style_.unicode || render::length_utf8(fitting) <= width || width < 4) return clip_utf8(fitting, width);
  std::string cut = clip_utf8(fitting, width - 2);  // ends in an ellipsis
  cut.resize(cut.size() - std::strlen("…"));
  return cut + "...";
}

/// The end of a path says more than its beginning.
std::string ReportText::clip_front(const std::string& text, std::size_t width) const {
  const std::size_t length = render::length_utf8(text);
  if (length <= width) return text;
  const std::string mark = style_.unicode ? "…" : "...";
  const std::size_t room = width - std::min(width, render::length_utf8(mark));
  std::size_t at = 0;
  for (std::size_t skip = length - room; skip > 0 && at < text.size(); --skip) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  }
  return mark + text.substr(at);
}

std::string ReportText::sparkline(const std::uint64_t* values, std::size_t count) const {
  static constexpr const char* kFine[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* kPlain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  const std::uint64_t most = count == 0 ? 0 : *std::max_element(values, values + count);
  std::string line;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = most == 0 ? 0 : static_cast<double>(values[i]) / static_cast<double>(most);
    const auto level = std::min<std::size_t>(static_cast<std::size_t>(share * 8), 7);
    line += style_.unicode ? kFine[level] : kPlain[level];
  }
  return line;
}

std::string ReportText::bar(std::uint64_t value, std::uint64_t of, std::size_t columns) const {
  if (of == 0 || value == 0) return {};
  const double length = static_cast<double>(value) / static_cast<double>(of) * static_cast<double>(columns);
  const auto whole = std::max<std::size_t>(1, std::min(columns, static_cast<std::size_t>(length + 0.5)));
  std::string bar;
  for (std::size_t i = 0; i < whole; ++i) bar += style_.unicode ? "█" : "#";
  return bar;
}

ReportText& ReportText::heading(const std::string& text) { return line().line(paint(kBold, text)); }

ReportText& ReportText::table(const std::vector<std::string>& headers,
                              const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const std::string& header : headers) widths.push_back(render::length_utf8(header));
  for (const std::vector<std::string>& cells : rows)
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], render::length_utf8(plain(cells[i])));
  // Where a terminal is too narrow, columns go, from the right, until there is room for the last.
  constexpr std::size_t kLeastLast = 16;
  std::size_t shown = widths.empty() ? 0 : widths.size() - 1;
  std::size_t used = 2;
  for (std::size_t i = 0; i < shown; ++i) used += widths[i] + 2;
  while (shown > 1 && used + std::min(kLeastLast, widths.back()) > style_.width) used -= widths[--shown] + 2;
  const auto put = [&](const std::vector<std::string>& cells, bool head) {
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) text += "  " + right(plain(cells[i]), widths[i]);
    text += "  " + clip(cells.back(), style_.width - std::min(style_.width, used));
    line(head ? paint(kDim, text) : text);
  };
  put(headers, true);
  for (const std::vector<std::string>& cells : rows) put(cells, false);
  return *this;
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

ReportText& ReportText::row(const std::string& label, const std::string& value, const std::string& more) {
  return line("  " + padded(label, 11) + paint(kBold, right(value, 10)) +
              (more.empty() ? "" : "  " + clip(more, style_.width - 25)));
}

ReportText& ReportText::title() {
  line(paint(kBold, clip(command_of(profile_), style_.width)));
  std::string what = "pid " + std::to_string(profile_.recording.pid) + ", " +
                     human_time(profile_.recording.duration_ns) + ", " + ending_of(profile_);
  line(clip(clean_utf8(what), style_.width));
  if (profile_.slice)
    line("only from " + human_time(profile_.begin_ns()) + " to " + human_time(profile_.end_ns()));
  if (!profile_.selected.empty()) line(clip(clean_utf8("only " + profile_.selected), style_.width));
  return *this;
}

ReportText& ReportText::head() {
  title();
  line();
  const model::HeapTotals& heap = profile_.heap;
  const model::Costs& costs = profile_.totals;  // of the kind that was asked for
  const bool of_mappings = profile_.kind == model::Kind::kMmap;
  const bool running = profile_.integrity.ended_by == "running";
  const std::string live_at_end = profile_.slice ? ", allocated in the slice and live at its end"
                                  : running      ? ""
                                                 : ", live at the end";
  if (profile_.is_moment()) {
    row("live", human_bytes(costs.peak_bytes),
        "in " + things(costs.peak_blocks) + ", at " + human_time(*profile_.live_at_ns));
    row("never freed", human_bytes(costs.leaked_bytes), "in " + things(costs.leaked_blocks) + " of these");
  } else {
    row("peak", human_bytes(costs.peak_bytes),
        "in " + things(costs.peak_blocks) + ", at " + human_time(profile_.peak_time_ns));
    row(running ? "live now" : of_mappings ? "live" : "leaked", human_bytes(costs.leaked_bytes),
        "in " + things(costs.leaked_blocks) + live_at_end);
    std::string rate;
    if (profile_.recording.duration_ns >= 1'000'000) {
      const std::uint64_t begin_ns = profile_.begin_ns();
      const std::uint64_t duration_ns = std::max(profile_.end_ns(), begin_ns + 1'000) - begin_ns;
      const double seconds = static_cast<double>(duration_ns) / 1e9;
      rate = ", " + exact_number(static_cast<std::uint64_t>(static_cast<double>(costs.allocations) / seconds)) +
             " a second";
    }
    if (of_mappings)
      row("mapped", human_bytes(costs.allocated_bytes), "in " + things(costs.allocations) + rate);
    else
      row("allocated", human_bytes(costs.allocated_bytes),
          "in " + (profile_.kind == model::Kind::kAll ? things(costs.allocations) : allocations(heap.allocations)) +
              rate);
    // Only blocks are temporary.
    if (!of_mappings)
      row("temporary", percent(heap.temporary_allocations, heap.allocations),
          exact_number(heap.temporary_allocations) + " freed before their thread's next allocation");
    if (heap.failed != 0 && !of_mappings) row("failed", exact_number(heap.failed), "calls found no memory");
  }
  if (profile_.mmap.mappings != 0 && !of_mappings)
    row("mappings", human_bytes(profile_.mmap.peak_bytes),
        "at their peak, " + human_bytes(profile_.mmap.live_bytes) +
            (running         ? " live now"
             : profile_.slice ? " live at the slice's end"
                              : " live at the end"));
  // Heaps of virtual machines (V8, BEAM) are made so: resident memory is then far above all figures, and this says
  // why.
  constexpr std::uint64_t kWorthALine = 64 << 20;
  if (profile_.mmap.reserved_bytes >= kWorthALine)
    row("reserved", human_bytes(profile_.mmap.reserved_bytes),
        "address space without access; what mprotect makes usable is not counted");
  // Resident memory is the whole process's: it has a moment and a slice of time, but no stack, thread or size.
  if (profile_.is_moment() && profile_.resident.bytes != 0)
    row("resident", human_bytes(profile_.resident.bytes),
        "the whole process, sampled at " + human_time(profile_.resident.time_ns));
  else if (profile_.selected.empty() && profile_.timeline.peak_rss_bytes != 0)
    row("resident", human_bytes(profile_.timeline.peak_rss_bytes),
        "highest of " + exact_number(profile_.timeline.samples) +
            (profile_.timeline.samples == 1 ? " sample" : " samples"));
  return *this;
}

/// "1 block", "3 mappings": what the figures of the kind asked for are made of.
std::string ReportText::things(std::uint64_t count) const {
  if (profile_.kind == model::Kind::kHeap) return block_count(count);
  if (profile_.kind == model::Kind::kMmap) return exact_number(count) + (count == 1 ? " mapping" : " mappings");
  return exact_number(count) + (count == 1 ? " block or mapping" : " blocks and mappings");
}

void ReportText::frame(const Frame& frame) {
  std::string place;
  std::string function = clean_utf8(frame.function);
  if (function.empty()) {
    function = clean_utf8(unresolved_name(frame));
    if (frame.function_begin != 0) place = distance_into_function(frame);
  } else if (!frame.file.empty()) {
    place = clean_utf8(base_name(frame.file)) + (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
  } else if (!frame.module->path.empty()) {
    place = "in " + clean_utf8(base_name(frame.module->path));
  }
  const std::string mark = frame.inlined ? " (inlined)" : frame.guessed ? " (guessed)" : "";
  const std::size_t room = style_.width - kFrameIndent;
  const std::size_t function_width = place.empty() && mark.empty() ? room : room * 62 / 100;
  // In full where it fits, else without template arguments and parameters.
  if (render::length_utf8(function) > function_width) function = render::short_name(function);
  const std::string clipped = clip(function, function_width);
  const char* const colour = frame.function.empty() ? kDim : kFunction;
  std::string text = std::string(kFrameIndent, ' ') + paint(colour, clipped);
  if (!place.empty() || !mark.empty()) {
    text += std::string(function_width - render::length_utf8(clipped) + 2, ' ');
    text += paint(kDim, clip_front(place, room - function_width - 2 - mark.size()) + mark);
  }
  line(text);
}

ReportText& ReportText::stacks(Cost cost, const std::vector<RankedStack>& stacks, std::size_t of,
                               const StackNames& names) {
  const RankedStack total = figures_of(profile_.totals, cost);
  const bool by_blocks = ranks_by_blocks(cost);
  std::string text = heading_of(cost, profile_);
  if (stacks.size() < of) text += " (" + std::to_string(stacks.size()) + " of " + exact_number(of) + " stacks)";
  heading(text);
  if (stacks.empty()) line("  none");
  std::size_t number = 0;
  for (const RankedStack& ranked : stacks) {
    const std::string main = by_blocks ? exact_number(ranked.blocks) : human_bytes(ranked.bytes);
    const std::string share = by_blocks ? percent(ranked.blocks, total.blocks) : percent(ranked.bytes, total.bytes);
    const std::string more = by_blocks ? human_bytes(ranked.bytes) : "in " + things(ranked.blocks);
    stack(++number, paint(kBold, right(main, 10)) + "  " + right(share, 6) + "  " + more, ranked.node, names);
  }
  return *this;
}

ReportText& ReportText::stack(std::size_t number, const std::string& headline, std::uint32_t node,
                              const StackNames& names) {
  line();
  line(right(std::to_string(number), 3) + "  " + headline);
  return frames(node, names);
}

ReportText& ReportText::frames(std::uint32_t node, const StackNames& names) {
  std::vector<Frame> frames = names.stack(node);
  const auto dots = [this](std::size_t count, const char* one, const char* many) {
    line(std::string(kFrameIndent, ' ') + paint(kDim, "… " + std::to_string(count) + (count == 1 ? one : many)));
  };
  // Of what only passes memory on, the function that was called stands for all: the room is for the program's own.
  constexpr std::size_t kWorthLeavingOut = 3;
  if (style_.frames != 0 && frames.size() > 1) {
    const std::size_t machinery = frames_of_machinery(frames);
    if (machinery >= kWorthLeavingOut + 1) {
      frame(frames.front());
      dots(machinery - 1, " frame of the allocator and containers …", " frames of the allocator and containers …");
      frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(machinery));
    }
  }
  std::size_t shown = frames.size();
  std::size_t tail = 0;
  if (style_.frames != 0 && frames.size() > style_.frames) {
    tail = std::min<std::size_t>(2, style_.frames / 3);
    shown = style_.frames - tail - 1;
  }
  for (std::size_t i = 0; i < shown; ++i) frame(frames[i]);
  if (shown < frames.size()) {
    // The first time also how to see them; what matters may be among them, as the script below an interpreter is.
    if (out_.find("--frames 0 shows all") == std::string::npos)
      dots(frames.size() - shown - tail, " more frame, --frames 0 shows all …", " more frames, --frames 0 shows all …");
    else
      dots(frames.size() - shown - tail, " more frame …", " more frames …");
    for (std::size_t i = frames.size() - tail; i < frames.size(); ++i) frame(frames[i]);
  }
  const char* const truncated = profile_.nodes[node].truncated;
  if (truncated != nullptr)
    line(std::string(kFrameIndent, ' ') +
         paint(kDim, std::string("(stack cut: ") + words_for_truncation(truncated) + ")"));
  else if (frames.empty())
    line(std::string(kFrameIndent, ' ') + paint(kDim, "(no stack recorded)"));
  return *this;
}

void ReportText::paragraph(const std::string& text, std::size_t indent) {
  bool first = true;
  for (const std::string& piece : render::wrapped(clean_utf8(text), style_.width - indent)) {
    line((first ? std::string(indent - 2, ' ') + "- " : std::string(indent, ' ')) + piece);
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
    if (!value.empty()) line("  " + padded(label, 16) + clip(clean_utf8(value), style_.width - 18));
  };
  title();
  line();
  field("program", recording.program);
  // Whole, as nothing else but JSON shows it so.
  std::string label = "command line";
  for (const std::string& piece : render::wrapped(clean_utf8(command_of(profile_)), style_.width - 18)) {
    if (!piece.empty()) line("  " + padded(label, 16) + piece);
    label.clear();
  }
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
  std::string size =
      human_bytes(recording.trace_bytes) + ", version " + recording.trace_version + ", clock " + recording.clock;
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
         clip(clean_utf8(thread.name), 40));
  }
  line();
  line(paint(kBold, "Modules"));
  for (const model::Module& module : profile_.modules) {
    if (module.path.empty()) continue;
    char address[32];
    std::snprintf(address, sizeof address, "%016llx", static_cast<unsigned long long>(module.first_address));
    const std::string id = module.build_id.empty() ? "no build id" : module.build_id.substr(0, 16);
    line("  " + std::string(address) + "  " + padded(id, 16) + "  " +
         clip_front(clean_utf8(module.path), style_.width - 38) +
         (module.loads > 1 ? " (" + std::to_string(module.loads) + " times)" : ""));
  }
  if (!recording.settings.empty()) {
    line();
    line(paint(kBold, "Settings"));
    for (const auto& [name, value] : recording.settings)
      line("  " + padded(clean_utf8(name), 26) + clip(clean_utf8(value), style_.width - 28));
  }
  return *this;
}

}  // namespace heapprof::cli
