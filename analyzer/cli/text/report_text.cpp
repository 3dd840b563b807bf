#include "analyzer/cli/text/report_text.h"

#include <algorithm>

#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/findings/origin.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using render::clean_utf8;
using render::exact_number;
using render::human_bytes;
using render::human_time;
using render::pad_left;
using render::percent;

constexpr std::size_t kFrameIndent = 6;

std::string heading_of(Cost cost, const model::Profile& profile) {
  switch (cost) {
    case Cost::kPeak:
      if (profile.is_moment()) return "Live at " + human_time(*profile.live_at_ns) + ", by stack";
      return profile.slice ? "Live at the slice's peak, by stack" : "Live at the peak, by stack";
    case Cost::kLeaked: return live_words(profile) + ", by stack";
    case Cost::kAllocated: return "Allocated in total, by stack";
    case Cost::kAllocations:
      return profile.kind == model::Kind::kHeap   ? "Number of allocations, by stack"
             : profile.kind == model::Kind::kMmap ? "Number of mappings, by stack"
                                                  : "Number of allocations and mappings, by stack";
    case Cost::kTemporary: return "Temporary allocations, by stack";
  }
  return "";
}

/// ", 42,385 per second" over the slice or the recording; empty for a recording of less than a millisecond.
std::string rate_of(const model::Profile& profile) {
  if (profile.recording.duration_ns < 1'000'000) return {};
  const std::uint64_t begin_ns = profile.begin_ns();
  const std::uint64_t duration_ns = std::max(profile.end_ns(), begin_ns + 1'000) - begin_ns;
  const double seconds = static_cast<double>(duration_ns) / 1e9;
  const double rate = static_cast<double>(profile.totals.allocations) / seconds;
  return ", " + exact_number(static_cast<std::uint64_t>(rate)) + " per second";
}

/// Number of innermost frames of `stack` (not empty) that only pass memory on; less than its size.
std::size_t frames_of_machinery(const std::vector<Frame>& stack) {
  const auto at = std::find_if(stack.begin(), stack.end(), [](const Frame& frame) {
    return !findings::is_allocation_function(frame.function) && !findings::is_named_like_allocator(frame.function) &&
           !findings::is_of_standard_library(frame.function);
  });
  return at == stack.end() ? stack.size() - 1 : static_cast<std::size_t>(at - stack.begin());
}

std::string allocation_count(std::uint64_t count) {
  return exact_number(count) + (count == 1 ? " allocation" : " allocations");
}

}  // namespace

ReportText& ReportText::title() {
  line(bold(clip(command_of(profile_), style().width)));
  const std::string process = "pid " + std::to_string(profile_.recording.pid) + ", " +
                              human_time(profile_.recording.duration_ns) + ", " + ending_of(profile_);
  line(clip(clean_utf8(process), style().width));
  if (profile_.slice) line("only from " + human_time(profile_.begin_ns()) + " to " + human_time(profile_.end_ns()));
  if (!profile_.selection_text.empty()) line(clip(clean_utf8("only " + profile_.selection_text), style().width));
  return *this;
}

ReportText& ReportText::head() {
  title();
  line();
  if (profile_.is_moment()) moment_rows();
  else peak_rows();
  process_rows();
  return *this;
}

/// What was live at the moment of --live-at.
void ReportText::moment_rows() {
  const model::Costs& costs = profile_.totals;
  row("live", human_bytes(costs.peak_bytes),
      "in " + count_of_kind(profile_, costs.peak_blocks) + ", at " + human_time(*profile_.live_at_ns));
  row("never freed", human_bytes(costs.leaked_bytes), "of these, in " + count_of_kind(profile_, costs.leaked_blocks));
}

void ReportText::peak_rows() {
  const model::HeapTotals& heap = profile_.heap;
  const model::Costs& costs = profile_.totals;  // of the kind that was asked for
  const bool of_mappings = profile_.kind == model::Kind::kMmap;
  const bool running = profile_.integrity.ended_by == "running";
  row("peak", human_bytes(costs.peak_bytes),
      costs.peak_bytes == 0
          ? "no byte was live"
          : "in " + count_of_kind(profile_, costs.peak_blocks) + ", at " + human_time(profile_.peak_time_ns));
  row(running       ? "live now"
      : of_mappings ? "live"
                    : "leaked",
      human_bytes(costs.leaked_bytes),
      "in " + count_of_kind(profile_, costs.leaked_blocks) +
          (profile_.slice ? ", allocated in the slice and live at its end"
           : running      ? ""
                          : ", live at the end"));
  if (of_mappings) {
    row("mapped", human_bytes(costs.allocated_bytes),
        "in " + count_of_kind(profile_, costs.allocations) + rate_of(profile_));
    return;
  }
  row("allocated", human_bytes(costs.allocated_bytes),
      "in " +
          (profile_.kind == model::Kind::kAll ? count_of_kind(profile_, costs.allocations)
                                              : allocation_count(heap.allocations)) +
          rate_of(profile_));
  // Mappings are never temporary.
  row("temporary", percent(heap.temporary_allocations, heap.allocations),
      exact_number(heap.temporary_allocations) + " freed before their thread's next allocation");
  if (heap.failed != 0) row("failed", exact_number(heap.failed), "allocations returned no memory");
}

/// Mappings and resident memory of the process.
void ReportText::process_rows() {
  const bool running = profile_.integrity.ended_by == "running";
  if (profile_.mmap.mappings != 0 && profile_.kind != model::Kind::kMmap)
    row("mappings", human_bytes(profile_.mmap.peak_bytes),
        "at their peak, " + human_bytes(profile_.mmap.live_bytes) +
            (running          ? " live now"
             : profile_.slice ? " live at the slice's end"
                              : " live at the end"));
  // Virtual machines (V8, BEAM) reserve their heaps like this. Without this row nothing explains why resident memory
  // is far above every figure.
  constexpr std::uint64_t kMinReservedBytes = 64 << 20;
  if (profile_.mmap.reserved_bytes >= kMinReservedBytes)
    row("reserved", human_bytes(profile_.mmap.reserved_bytes),
        "mapped without access (PROT_NONE); not counted, even after mprotect");
  // Resident memory is that of the process: it exists at a moment and in a slice, but not for a stack, thread or
  // size.
  if (profile_.is_moment() && profile_.resident.bytes != 0)
    row("resident", human_bytes(profile_.resident.bytes),
        "of the process, sampled at " + human_time(profile_.resident.time_ns));
  else if (profile_.selection_text.empty() && profile_.timeline.peak_rss_bytes != 0)
    row("resident", human_bytes(profile_.timeline.peak_rss_bytes),
        "maximum of " + exact_number(profile_.timeline.samples) +
            (profile_.timeline.samples == 1 ? " sample" : " samples"));
}

void ReportText::frame(const Frame& frame) {
  std::string function = clean_utf8(frame.function.empty() ? unresolved_name(frame) : frame.function);
  const std::string location = location_of(frame);
  const std::string mark = frame.inlined ? " (inlined)" : frame.guessed ? " (guessed)" : "";
  const std::size_t room = style().width - kFrameIndent;
  const std::size_t function_width = location.empty() && mark.empty() ? room : room * 62 / 100;
  // A name that is too long is printed without template arguments and parameters.
  if (render::length_utf8(function) > function_width) function = render::without_arguments(function);
  const std::string clipped = clip(function, function_width);
  std::string text = std::string(kFrameIndent, ' ') +
                     paint(frame.function.empty() ? TextColour::kDim : TextColour::kFunction, clipped);
  if (!location.empty() || !mark.empty()) {
    text += std::string(function_width - render::length_utf8(clipped) + 2, ' ');
    text += paint(TextColour::kDim, clip_front(location, room - function_width - 2 - mark.size()) + mark);
  }
  line(text);
}

ReportText& ReportText::stacks(Cost cost, const std::vector<RankedStack>& stacks, std::size_t all,
                               const StackNames& names) {
  const RankedStack total = figures_of(profile_.totals, cost);
  const bool by_blocks = ranks_by_blocks(cost);
  std::string text = heading_of(cost, profile_);
  if (stacks.size() < all) text += " (" + std::to_string(stacks.size()) + " of " + exact_number(all) + " stacks)";
  heading(text);
  if (stacks.empty()) line("  none");
  std::size_t number = 0;
  for (const RankedStack& ranked : stacks) {
    const std::string figure = by_blocks ? exact_number(ranked.blocks) : human_bytes(ranked.bytes);
    const std::string share = by_blocks ? percent(ranked.blocks, total.blocks) : percent(ranked.bytes, total.bytes);
    const std::string more = by_blocks ? human_bytes(ranked.bytes) : "in " + count_of_kind(profile_, ranked.blocks);
    stack(++number, bold(pad_left(figure, 10)) + "  " + pad_left(share, 6) + "  " + more, ranked.node, names);
  }
  return *this;
}

ReportText& ReportText::stack(std::size_t number, const std::string& headline, std::uint32_t node,
                              const StackNames& names) {
  line();
  line(pad_left(std::to_string(number), 3) + "  " + headline);
  return frames(node, names);
}

/// A line instead of frames that are not printed: "… 3 more frames, --frames 0 shows all …".
void ReportText::left_out(std::size_t frames, const std::string& adjective, const std::string& more) {
  const std::string count = std::to_string(frames) + adjective + (frames == 1 ? " frame" : " frames");
  line(std::string(kFrameIndent, ' ') + paint(TextColour::kDim, "… " + count + more + " …"));
}

ReportText& ReportText::frames(std::uint32_t node, const StackNames& names) {
  std::vector<Frame> frames = names.stack(node);
  const std::size_t limit = style().frames;
  // The frames of the allocation machinery are counted in one line after the innermost frame, to leave the lines for
  // the program's own frames.
  constexpr std::size_t kMinLeftOut = 3;
  if (limit != 0 && frames.size() > 1) {
    const std::size_t machinery = frames_of_machinery(frames);
    if (machinery >= kMinLeftOut + 1) {
      frame(frames.front());
      left_out(machinery - 1, "", " of the allocator and containers");
      frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(machinery));
    }
  }
  std::size_t shown = frames.size();
  std::size_t tail = 0;
  if (limit != 0 && frames.size() > limit) {
    tail = std::min<std::size_t>(2, limit / 3);
    shown = limit - tail - 1;
  }
  for (std::size_t i = 0; i < shown; ++i) frame(frames[i]);
  if (shown < frames.size()) {
    // The hint is printed once. Frames that matter may be among those left out, such as the script below an
    // interpreter.
    const std::string hint = ", --frames 0 shows all";
    left_out(frames.size() - shown - tail, " more", contains(hint) ? "" : hint);
    for (std::size_t i = frames.size() - tail; i < frames.size(); ++i) frame(frames[i]);
  }
  const char* const truncated = profile_.nodes[node].truncated;
  if (truncated != nullptr)
    line(std::string(kFrameIndent, ' ') +
         paint(TextColour::kDim, std::string("(truncated stack: ") + words_for_truncation(truncated) + ")"));
  else if (frames.empty()) line(std::string(kFrameIndent, ' ') + paint(TextColour::kDim, "(no stack recorded)"));
  return *this;
}

ReportText& ReportText::notes(const std::vector<std::string>& symbol_warnings) {
  const model::Integrity& integrity = profile_.integrity;
  if (integrity.complete && integrity.notes.empty() && symbol_warnings.empty()) return *this;
  line();
  if (integrity.complete) {
    line(bold("Notes"));
  } else {
    std::string losses = losses_of(integrity) + ".";
    losses.front() = 'R';
    line(paint(TextColour::kWarning, losses));
  }
  for (const std::string& note : integrity.notes) list_item(clean_utf8(note));
  for (const std::string& warning : symbol_warnings) list_item(clean_utf8(warning));
  return *this;
}

}  // namespace heapprof::cli
