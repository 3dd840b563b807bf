#include "analyzer/cli/text/report_text.h"

#include <algorithm>

#include "analyzer/cli/text/processes_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/findings/origin.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using render::clean_utf8;
using render::exact_number;
using render::human_bytes;
using render::human_time;
using render::pad_left;
using render::percent;

constexpr std::size_t kFrameIndent = 6;

/// ", 42,385 per second" over the slice or the recording; empty for a recording of less than a millisecond.
std::string rate_of(const model::Profile& profile) {
  if (profile.recording.duration_ns < 1'000'000) return {};
  const std::uint64_t begin_ns = profile.begin_ns();
  const std::uint64_t duration_ns = std::max(profile.end_ns(), begin_ns + 1'000) - begin_ns;
  const double seconds = static_cast<double>(duration_ns) / 1e9;
  const double rate = static_cast<double>(profile.totals.allocations) / seconds;
  return ", " + exact_number(static_cast<std::uint64_t>(rate)) + " per second";
}

bool is_library(findings::Origin origin) {
  return origin == findings::Origin::kStandard || origin == findings::Origin::kRuntime;
}

std::string allocation_count(std::uint64_t count) {
  return exact_number(count) + (count == 1 ? " allocation" : " allocations");
}

}  // namespace

std::string heading_of(Cost cost, const model::Profile& profile) {
  switch (cost) {
    case Cost::kPeak:
      if (profile.survivors_ns) return live_words(profile);
      if (profile.is_moment()) return "Live at " + render::human_time(*profile.moment_ns());
      if (profile.together)
        return std::string("Live at the peaks of the recordings") + (profile.slice ? " in the slice" : "");
      return profile.slice ? "Live at the slice's peak" : "Live at the peak";
    case Cost::kLeaked: return live_words(profile);
    case Cost::kAllocated: return allocated_words(profile);
    case Cost::kAllocations:
      return profile.kind == model::Kind::kHeap   ? "Number of allocations"
             : profile.kind == model::Kind::kMmap ? "Number of mappings"
                                                  : "Number of allocations and mappings";
    case Cost::kTemporary: return "Temporary allocations";
    case Cost::kLive:
      if (profile.survivors_ns) return live_words(profile);
      return "Live at " + render::human_time(profile.live_at_ns.value_or(profile.end_ns()));
  }
  return "";
}

ReportText& ReportText::title(Title title) {
  line(bold(clip(command_of(profile_), style().width)));
  const std::string recorded = profile_.together             ? sentence_of(profile_)
                               : title == Title::kWithEvents ? recorded_sentences(profile_)
                                                             : completeness_of(profile_) + ".";
  for (const std::string& piece : render::wrapped(recorded, style().width)) line(piece);
  if (profile_.slice) {
    const std::string slice = human_time(profile_.slice->from_ns) + " to " + human_time(profile_.slice->to_ns);
    if (!profile_.survivors_ns) line("only from " + slice);
    else line("only what was allocated from " + slice + ", until " + human_time(*profile_.survivors_ns));
  }
  if (!used_project_file.empty()) line(clip(clean_utf8(project_file_words()), style().width));
  if (!profile_.selection_text.empty()) line(clip(clean_utf8("only " + profile_.selection_text), style().width));
  return *this;
}

ReportText& ReportText::head() {
  title();
  line();
  if (profile_.survivors_ns) {
    survivor_rows();
    return *this;
  }
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

/// What was allocated in the slice, and what of it was live later.
void ReportText::survivor_rows() {
  const model::Costs& costs = profile_.totals;
  row("live", human_bytes(costs.leaked_bytes),
      "in " + count_of_kind(profile_, costs.leaked_blocks) + ", " + lower_case(live_words(profile_)));
  row("allocated", human_bytes(costs.allocated_bytes),
      "in " + count_of_kind(profile_, costs.allocations) + ", " + lower_case(allocated_words(profile_)));
}

void ReportText::peak_rows() {
  const model::HeapTotals& heap = profile_.heap;
  const model::Costs& costs = profile_.totals;  // of the kind that was asked for
  const bool of_mappings = profile_.kind == model::Kind::kMmap;
  const std::string& ended_by = profile_.integrity.ended_by;
  const bool running = ended_by == "running";
  // Only a program that exits leaks what it has not freed.
  const bool leaked = profile_.slice || ended_by == "exit";
  row(profile_.together ? "peaks" : "peak", human_bytes(costs.peak_bytes),
      costs.peak_bytes == 0 ? "no byte was live"
      : profile_.together
          ? "in " + count_of_kind(profile_, costs.peak_blocks) + ", each process at its own peak"
          : "in " + count_of_kind(profile_, costs.peak_blocks) + ", at " + human_time(profile_.peak_time_ns));
  row(running                  ? "live now"
      : of_mappings || !leaked ? "live"
                               : "leaked",
      human_bytes(costs.leaked_bytes),
      "in " + count_of_kind(profile_, costs.leaked_blocks) +
          (running ? "" : ", " + lower_case(live_words(profile_))));
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
  if (profile_.mmap.mappings != 0 && !profile_.together && profile_.kind != model::Kind::kMmap)
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

findings::Origin ReportText::origin_of(const Frame& frame) const {
  return origins_.of({frame.function, frame.file,
                      frame.module == nullptr ? std::string_view() : std::string_view(frame.module->path)});
}

std::vector<FrameRole> ReportText::roles_of(std::uint32_t node, const std::vector<Frame>& frames) const {
  std::vector<FrameRole> roles;
  roles.reserve(frames.size());
  if (findings_ != nullptr) {
    const std::vector<findings::FrameRef> stack = findings_->frames().stack(node);
    const findings::FrameRef site = findings::call_site_of(findings_->frames(), findings_->helpers(), node);
    const auto site_at = std::find(stack.begin(), stack.end(), site);
    for (auto frame = stack.begin(); frame != stack.end(); ++frame) {
      const findings::Function& function = findings_->frames().at(*frame);
      if (!findings_->frames().is_in_scope(function)) {
        roles.push_back(FrameRole::kHidden);
        continue;
      }
      const bool library =
          is_library(function.origin) || findings_->helpers().contains(findings_->frames().function_of(*frame));
      roles.push_back(frame < site_at || (library && frame != site_at) ? FrameRole::kLibrary : FrameRole::kProgram);
    }
    return roles;
  }
  for (const Frame& frame : frames) {
    const findings::Origin origin = origin_of(frame);
    const bool library = is_library(origin) || findings::is_named_like_allocator(frame.function);
    roles.push_back(library ? FrameRole::kLibrary : FrameRole::kProgram);
  }
  return roles;
}

void ReportText::frame(const Frame& frame, FrameRole role) {
  std::string function = clean_utf8(frame.function.empty() ? unresolved_name(frame) : frame.function);
  const std::string location = location_of(frame);
  const std::string mark = frame.inlined ? " (inlined)" : frame.guessed ? " (guessed)" : "";
  const std::size_t room = style().width - kFrameIndent;
  const std::size_t function_width = location.empty() && mark.empty() ? room : room * 62 / 100;
  // A name that is too long is printed without template arguments and parameters.
  if (!style().full_names && render::length_utf8(function) > function_width)
    function = render::without_arguments(function);
  const std::string clipped = style().full_names ? function : clip(function, function_width);
  std::string text(kFrameIndent, ' ');
  if (role == FrameRole::kLibrary) text += paint(TextColour::kDim, clipped);
  else if (origin_of(frame) == findings::Origin::kOwn) text += bold(clipped);
  else text += clipped;
  if (!location.empty() || !mark.empty()) {
    text += std::string(function_width - std::min(function_width, render::length_utf8(clipped)) + 2, ' ');
    text += paint(TextColour::kDim, clip_front(location, room - function_width - 2 - mark.size()) + mark);
  }
  line(text);
}

std::string ReportText::figures_of_stack(Cost cost, const RankedStack& stack, const RankedStack& total) const {
  const bool by_blocks = ranks_by_blocks(cost);
  const std::string figure = by_blocks ? exact_number(stack.blocks) : human_bytes(stack.bytes);
  const std::string share = by_blocks ? percent(stack.blocks, total.blocks) : percent(stack.bytes, total.bytes);
  const std::string more = by_blocks ? human_bytes(stack.bytes) : "in " + count_of_kind(profile_, stack.blocks);
  return bold(pad_left(figure, 10)) + "  " + pad_left(share, 6) + "  " + more;
}

ReportText& ReportText::stack(std::size_t number, const std::string& headline, std::uint32_t node,
                              const StackNames& names) {
  line();
  line(pad_left(std::to_string(number), 3) + "  " + headline);
  return frames(node, names);
}

ReportText& ReportText::frames(std::uint32_t node, const StackNames& names) {
  const std::vector<Frame> frames = names.stack(node);
  const std::vector<FrameRole> roles = roles_of(node, frames);
  const auto dim_line = [this](const std::string& text) {
    line(std::string(kFrameIndent, ' ') + paint(TextColour::kDim, clip(text, style().width - kFrameIndent)));
  };
  for (const StackLine& stack_line : lines_of_stack(frames, roles, style().frames)) {
    if (stack_line.kind == StackLine::Kind::kFrame) {
      frame(frames[stack_line.first], roles[stack_line.first]);
      continue;
    }
    // The hint is printed once. Frames that matter may be among those left out, such as the script below an
    // interpreter.
    const std::string hint = "--frames 0 shows all";
    std::string text = folded_text(stack_line, frames);
    if (stack_line.kind == StackLine::Kind::kMore && !contains(hint)) text.insert(text.rfind(" …"), ", " + hint);
    dim_line(text);
  }
  const char* const truncated = profile_.nodes[node].truncated;
  if (truncated != nullptr) dim_line(std::string("(truncated stack: ") + words_for_truncation(truncated) + ")");
  else if (frames.empty()) dim_line("(no stack recorded)");
  return *this;
}

namespace {

/// Why --only-own shows nothing: the program's functions have no names, so that none is known to be own code. Empty:
/// that is not the reason.
std::string note_of_missing_own_code(const Findings* findings, const model::Profile& profile) {
  if (findings == nullptr || !findings->view().only_own) return {};
  bool unresolved = false;
  for (const findings::Function& function : findings->frames().functions()) {
    if (function.origin == findings::Origin::kOwn) return {};
    unresolved |= function.name.empty() && profile.modules[function.module].is_main;
  }
  if (!unresolved) return {};
  return "no function of " + base_name(profile.recording.program) +
         " has a name, so none is known to be own code: the program is stripped. Use its debug information "
         "(--debug-dir, --debuginfod, or a build with -g), or count the whole program as own code with --own " +
         base_name(profile.recording.program);
}

}  // namespace

ReportText& ReportText::notes(const std::vector<std::string>& symbol_warnings) {
  const model::Integrity& integrity = profile_.integrity;
  const std::string no_own_code = note_of_missing_own_code(findings_, profile_);
  const std::vector<std::string> of_several =
      profile_.together ? notes_of(*profile_.together) : std::vector<std::string>();
  if (integrity.complete && integrity.notes.empty() && symbol_warnings.empty() && no_own_code.empty() &&
      of_several.empty())
    return *this;
  line();
  if (integrity.complete) {
    line(bold("Notes"));
  } else {
    std::string losses = losses_of(integrity) + ".";
    losses.front() = 'R';
    line(paint(TextColour::kWarning, losses));
  }
  if (!no_own_code.empty()) list_item(clean_utf8(no_own_code));
  for (const std::string& note : of_several) list_item(clean_utf8(note));
  for (const std::string& note : integrity.notes) list_item(clean_utf8(note));
  for (const std::string& warning : symbol_warnings) list_item(clean_utf8(warning));
  return *this;
}

}  // namespace heapprof::cli
