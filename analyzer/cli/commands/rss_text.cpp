#include "analyzer/cli/commands/rss_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/base/shell_quote.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/replay/analysis/moments.h"

namespace heapprof::cli {
namespace {

using allocators::Allocator;
using render::exact_number;
using render::human_bytes;
using render::percent;
using rss::Line;
using rss::Part;

struct LineWords {
  const char* label;
  const char* meaning;
};

/// By Line.
constexpr std::array<LineWords, rss::kLines> kWords = {{
    {"asked for", "requested by the program, in live blocks"},
    {"rounding", "what size classes and headers add to these blocks"},
    {"holes", "the rest of the pages that live blocks are on"},
    {"held back", "free pages that cannot be returned, since blocks near them are live"},
    {"returnable", "free pages that no live block keeps"},
    {"metadata", "the allocator's own, and pages that it has not used yet"},
    {"mappings", "mapped by the program itself (mmap)"},
    {"files", "program, libraries, other files"},
    {"stacks", "of threads"},
    {"shared", "shared memory"},
    {"recorder", "of heapprof, only while it records"},
    {"unknown", "anonymous memory that was not mapped by a recorded call"},
}};

const char* words_for(SnapshotReason reason) {
  switch (reason) {
    case SnapshotReason::kMark: return "at a mark";
    case SnapshotReason::kRequest: return "on request";
    case SnapshotReason::kExit: return "at the end";
    case SnapshotReason::kResidency: return "because resident memory had changed";
  }
  return "for an unknown reason";
}

/// "12.405": a value of --at that means the snapshot at this time.
std::string time_option(std::uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, ns < 1'000'000'000 ? "%.6f" : "%.3f", static_cast<double>(ns) / 1e9);
  return text;
}

std::string command(const char* name, const RssOptions& options, const std::string& more) {
  return std::string("heapprof ") + name + " " + shell_quoted(options.trace.trace) + (more.empty() ? "" : " " + more);
}

/// `option` with the exact moment, unless that is the end; then empty.
std::string at_option(const char* option, const RssAnswer& answer) {
  if (!answer.profile.slice) return "";
  return std::string(option) + " " + replay::exact_time(answer.at_ns);
}

std::string name_of_part(const RssAnswer& answer, const Part& part) {
  if (part.node == model::kNoIndex)
    return render::clean_utf8(part.name.starts_with("/") ? base_name(part.name) : part.name) +
           (part.writable ? ", writable data" : "");
  const Frame frame = mapping_site(answer, part.node);
  if (frame.module == nullptr) return "(no stack recorded)";
  const std::string function = frame.function.empty() ? unresolved_name(frame) : function_name(frame.function);
  const std::string location = location_of(frame);
  return location.empty() ? function : function + "  " + location;
}

class LineTable {
 public:
  LineTable(const RssOptions& options, const RssAnswer& answer)
      : options_(options), answer_(answer), sizes_(answer.memory.total_bytes()) {
    for (const LineWords& words : kWords) label_width_ = std::max(label_width_, std::string(words.label).size());
  }

  void append_to(ReportText& text) {
    for (std::size_t i = 0; i < rss::kLines; ++i) {
      const auto line = static_cast<Line>(i);
      const rss::LineFigures& figures = answer_.memory[line];
      if (figures.bytes == 0) continue;
      add(figures.bytes, padded(label_of(line)) + meaning_of(line));
      add_parts(figures);
    }
    add(answer_.memory.total_bytes(), padded("resident") + "all of these");
    write_columns(text, {{"bytes"}, {"share", Column::Kind::kFigure, 1}, {"", Column::Kind::kText}}, rows_);
  }

 private:
  std::string padded(const std::string& label) const {
    return label + std::string(label_width_ + 2 - std::min(label_width_ + 2, label.size()), ' ');
  }

  void add(std::uint64_t bytes, const std::string& words, bool part = false) {
    const std::optional<TextColour> colour = part ? TextColour::kDim : std::optional<TextColour>();
    rows_.push_back({{sizes_.text(bytes), part ? colour : TextColour::kBold},
                     {percent(bytes, answer_.memory.total_bytes()), colour},
                     {(part ? "    " : "") + words, colour}});
  }

  /// Parts with equal names, such as the stacks of a call site, are one row.
  void add_parts(const rss::LineFigures& figures) {
    std::vector<std::pair<std::string, std::uint64_t>> parts;
    std::map<std::string, std::size_t> positions;
    for (const Part& part : figures.parts) {
      const std::string name = name_of_part(answer_, part);
      const auto [at, fresh] = positions.try_emplace(name, parts.size());
      if (fresh) parts.emplace_back(name, part.bytes);
      else parts[at->second].second += part.bytes;
    }
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    const std::size_t shown = options_.top == 0 ? parts.size() : std::min(options_.top, parts.size());
    for (std::size_t i = 0; i < shown; ++i) add(parts[i].second, parts[i].first, true);
    if (shown == parts.size()) return;
    std::uint64_t more = 0;
    for (std::size_t i = shown; i < parts.size(); ++i) more += parts[i].second;
    add(more, exact_number(parts.size() - shown) + " more (--top 0)", true);
  }

  const RssOptions& options_;
  const RssAnswer& answer_;
  const render::ByteColumn sizes_;
  std::size_t label_width_ = 0;
  std::vector<std::vector<Cell>> rows_;
};

void append_source(ReportText& text, const RssAnswer& answer) {
  std::string sentence =
      "Resident memory at " + render::human_time(answer.at_ns) + ": " + human_bytes(answer.memory.total_bytes());
  if (answer.snapshot) {
    sentence += ", by snapshot " + exact_number(answer.snapshot->number) + " of its pages, taken ";
    sentence += words_for(answer.snapshot->reason);
    sentence += ".";
  } else {
    sentence += ", by a sample; the lines are estimated.";
  }
  text.line(sentence);
  text.line();
}

/// What the reader has to know about the figures.
void append_remarks(ReportText& text, const RssAnswer& answer) {
  const std::uint64_t total = answer.memory.total_bytes();
  if (!answer.snapshot) {
    text.paragraph(
        "Estimated: all pages of live blocks and of mappings count as resident, as far as the sample allows; files "
        "include shared memory and the recorder's file; unknown includes stacks and the recorder's other memory." +
        std::string(answer.sample && !answer.sample->shared_bytes
                        ? " The sample does not show which pages are of files, so these are unknown."
                        : ""));
    return;
  }
  const rss::SnapshotSummary& snapshot = *answer.snapshot;
  constexpr std::uint64_t kNoticeable = 256 << 10;
  const std::uint64_t statm = snapshot.statm_bytes;
  const std::uint64_t difference = statm > total ? statm - total : total - statm;
  if (statm != 0 && difference > std::max(total / 100, kNoticeable))
    text.paragraph("The kernel counted " + human_bytes(statm) + " when the snapshot began (statm): " +
                   human_bytes(difference) + (statm > total ? " more." : " less."));
  if (snapshot.end_ns - snapshot.begin_ns > 50'000'000)
    text.paragraph("The snapshot took " + render::human_time(snapshot.end_ns - snapshot.begin_ns) +
                   ", since it was continued several times. Memory that changed meanwhile may be in a wrong line.");
  if (snapshot.method == SnapshotMethod::kMincore)
    text.paragraph(
        "The kernel has no PAGEMAP_SCAN (Linux 6.7): swapped pages of anonymous memory and huge pages are not "
        "known.");
}

void append_outside(ReportText& text, const RssAnswer& answer) {
  const rss::ResidentMemory& memory = answer.memory;
  if (!answer.snapshot && memory.not_resident_bytes == 0) return;
  text.heading("Outside of the sum");
  if (memory.not_resident_bytes != 0)
    text.row("untouched", human_bytes(memory.not_resident_bytes),
             answer.snapshot ? "of live blocks, on pages that are not resident" : "of live blocks, at least");
  if (!answer.snapshot) return;
  if (memory.swapped_bytes != 0) text.row("swapped", human_bytes(memory.swapped_bytes), "of all memory");
  if (memory.huge_tlb_bytes != 0) text.row("hugetlb", human_bytes(memory.huge_tlb_bytes), "in hugetlbfs");
  text.row("page tables", human_bytes(memory.page_table_bytes), "of the kernel, estimated");
  if (memory.written_file_bytes && *memory.written_file_bytes != 0)
    text.line("Of files, " + human_bytes(*memory.written_file_bytes) +
              " were written: these pages are the process's own. Others may be shared with other processes.");
}

void append_mapping_stacks(ReportText& text, const RssOptions& options, const RssAnswer& answer) {
  const std::vector<Part>& mappings = answer.memory[Line::kMmap].parts;
  const std::size_t count = options.stacks == 0 ? mappings.size() : std::min(options.stacks, mappings.size());
  if (count == 0) return;
  text.heading("Stacks of the largest mappings");
  for (std::size_t i = 0; i < count; ++i)
    text.stack(i + 1, human_bytes(mappings[i].bytes) + " resident", mappings[i].node, answer.names);
}

void append_snapshots(ReportText& text, const RssOptions& options, const RssAnswer& answer) {
  constexpr std::size_t kShown = 8;
  std::vector<const rss::SnapshotSummary*> complete;
  for (const rss::SnapshotSummary& one : answer.snapshots)
    if (one.complete) complete.push_back(&one);
  if (complete.empty()) {
    text.heading("Snapshots");
    text.line("  none. A recording has them unless it was made with --snapshots off, or by an older recorder.");
    return;
  }
  const std::size_t all = complete.size();
  std::stable_sort(complete.begin(), complete.end(),
                   [](const auto* a, const auto* b) { return a->statm_bytes > b->statm_bytes; });
  if (options.top != 0 && complete.size() > kShown) complete.resize(kShown);
  std::sort(complete.begin(), complete.end(), [](const auto* a, const auto* b) { return a->number < b->number; });
  text.heading(complete.size() == all ? "Snapshots (--at TIME)"
                                      : "Snapshots (--at TIME; the " + exact_number(complete.size()) +
                                            " largest of " + exact_number(all) + ", --top 0: all)");
  std::uint64_t largest = 0;
  for (const auto* one : complete) largest = std::max(largest, one->statm_bytes);
  const render::ByteColumn sizes(largest);
  std::vector<std::vector<Cell>> rows;
  for (const auto* one : complete) {
    const bool shown = answer.snapshot && answer.snapshot->number == one->number;
    rows.push_back({{time_option(one->begin_ns)},
                    {one->statm_bytes == 0 ? "" : sizes.text(one->statm_bytes)},
                    {std::string(words_for(one->reason)) + (shown ? "; shown above" : "")}});
  }
  write_columns(text, {{"seconds"}, {"resident"}, {"taken", Column::Kind::kText}}, rows);
}

}  // namespace

const char* label_of(Line line) { return kWords[static_cast<std::size_t>(line)].label; }
const char* meaning_of(Line line) { return kWords[static_cast<std::size_t>(line)].meaning; }

Frame mapping_site(const RssAnswer& answer, std::uint32_t node) {
  const findings::FrameRef site = findings::call_site_of(answer.findings.frames(), answer.findings.helpers(), node);
  return site.exists() ? answer.findings.frame(site) : Frame{};
}

std::string rss_verdict(const RssOptions& options, const RssAnswer& answer) {
  const rss::ResidentMemory& memory = answer.memory;
  const std::uint64_t total = memory.total_bytes();
  if (total == 0) return "No memory was resident.";
  const auto amount = [&](std::uint64_t bytes) { return human_bytes(bytes) + " (" + percent(bytes, total) + ")"; };
  const std::string call = allocators::trim_call(answer.allocator);
  const std::uint64_t returnable = memory.bytes_of(Line::kReturnable);
  const std::uint64_t free_but_kept = memory.bytes_of(Line::kHoles) + memory.bytes_of(Line::kHeldBack);
  // What is less than a tenth of resident memory does not explain it.
  const std::uint64_t worth_naming = total / 10;
  const std::string up_to = answer.snapshot && answer.allocator != Allocator::kTcmalloc ? "" : "up to ";
  const std::string returned = call + " would return " + up_to + amount(returnable);
  if (returnable >= worth_naming && returnable >= free_but_kept)
    return returned + ", since no live block keeps it" +
           (allocators::returns_memory_by_itself(answer.allocator)
                ? "; " + std::string(allocators::name_of(answer.allocator)) +
                      " also does so by itself, after a while."
                : ".");
  if (free_but_kept >= worth_naming)
    return "Live blocks keep " + amount(free_but_kept) + " of free memory from being returned: '" +
           command("pins", options, at_option("--at", answer)) + "' names their call sites." +
           (returnable >= worth_naming ? " " + returned + "." : "");

  Line largest = Line::kRequested;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < rss::kLines; ++i) {
    const auto line = static_cast<Line>(i);
    if (memory.bytes_of(line) <= bytes) continue;
    largest = line;
    bytes = memory.bytes_of(line);
  }
  if (largest == Line::kRounding) largest = Line::kRequested;
  if (largest == Line::kRequested) bytes = memory.bytes_of(Line::kRequested) + memory.bytes_of(Line::kRounding);
  const std::string part = (bytes * 2 >= total ? "Most of it, " : "The largest part, ") + amount(bytes) + ", ";
  switch (largest) {
    case Line::kRequested:
      return part + "is what the program asked for: '" + command("report", options, at_option("--live-at", answer)) +
             "' names the call sites.";
    case Line::kMmap:
      return part + "was mapped by the program itself (mmap): '" +
             command("report", options,
                     answer.profile.slice ? at_option("--kind mmap --live-at", answer) : "--kind mmap") +
             "' names the call sites.";
    case Line::kFiles:
      return part + "is pages of files: the kernel shares them between processes, and drops those that were not " +
             "written when memory is short.";
    case Line::kRecorder: return part + "is heapprof's own: the process is too small to be explained by its heap.";
    default: return part + "is in the line '" + label_of(largest) + "': " + meaning_of(largest) + ".";
  }
}

std::string rss_text(const RssOptions& options, const RssAnswer& answer) {
  ReportText text(answer.profile, answer_style(options.trace.output, options.frames), &answer.findings);
  text.title().line();
  append_source(text, answer);
  LineTable(options, answer).append_to(text);
  text.line();
  text.paragraph(rss_verdict(options, answer));
  append_remarks(text, answer);
  append_outside(text, answer);
  append_mapping_stacks(text, options, answer);
  append_snapshots(text, options, answer);
  text.line();
  text.line("Who keeps free memory: " + command("pins", options, at_option("--at", answer)));
  text.line("Who asked for memory: " + command("report", options, at_option("--live-at", answer)));
  std::vector<std::string> warnings = answer.names.warnings();
  if (!answer.note.empty()) warnings.insert(warnings.begin(), answer.note);
  text.notes(warnings);
  return text.text();
}

}  // namespace heapprof::cli
