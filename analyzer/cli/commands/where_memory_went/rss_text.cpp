#include "analyzer/cli/commands/where_memory_went/rss_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/findings/call_sites.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"
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
    {"holes", "free memory in pages that hold live blocks"},
    {"held back", "free pages that cannot be returned"},
    {"returnable", "free pages that no live block keeps"},
    {"metadata", "the allocator's own, and pages that it has not used yet"},
    {"mappings", "mapped by the program itself (mmap)"},
    {"files", "program, libraries, other files"},
    {"stacks", "of threads"},
    {"shared", "shared memory"},
    {"recorder", "of heapprof, only while it records"},
    {"unknown", "anonymous memory that was not mapped by a recorded call"},
}};

/// "mark 'loaded'": the reason, as in JSON.
std::string reason_of(const rss::SnapshotSummary& snapshot) {
  std::string words = rss::name_of(snapshot.reason);
  if (!snapshot.mark.empty()) words += " '" + render::clean_utf8(snapshot.mark) + "'";
  return words;
}

/// Whether the snapshot is that of the program's exit. One is also taken before an exec, which may have failed.
bool shows_exit(const RssAnswer& answer) {
  if (!answer.snapshot || answer.snapshot->reason != SnapshotReason::kExit) return false;
  const rss::SnapshotSummary* const last = rss::snapshot_at_end(answer.recorded);
  return last != nullptr && last->number == answer.snapshot->number;
}

/// "taken at the mark 'loaded'". Precondition: the answer has a snapshot.
std::string taken_words(const RssAnswer& answer) {
  const rss::SnapshotSummary& snapshot = *answer.snapshot;
  switch (snapshot.reason) {
    case SnapshotReason::kMark: return "taken at the " + reason_of(snapshot);
    case SnapshotReason::kRequest: return "taken on request";
    case SnapshotReason::kExit: return shows_exit(answer) ? "taken at the end" : "taken before an exit or exec";
    case SnapshotReason::kResidency: return "taken because resident memory had changed";
  }
  return "taken for an unknown reason";
}

/// What no live block keeps, although it cannot be returned.
std::uint64_t free_ends(const rss::ResidentMemory& memory) {
  std::uint64_t bytes = 0;
  for (const Part& part : memory[Line::kHeldBack].parts) bytes += part.bytes;
  return bytes;
}

/// The meaning of a line in this answer: with this allocator, measured or estimated.
std::string meaning_in(const RssAnswer& answer, Line line) {
  if (line == Line::kHeldBack)
    return answer.allocator == Allocator::kGlibc
               ? "free pages that cannot be returned: blocks near them are live, or they are the free end of a "
                 "thread's heap"
               : "free pages of slabs and spans that hold live blocks";
  if (!answer.snapshot && line == Line::kFiles) return "mapped files, shared memory, the file of the recording";
  if (!answer.snapshot && line == Line::kUnknown) return "the rest: stacks, metadata, the recorder's own memory";
  return meaning_of(line);
}

/// "12.405": a value of --at that means the snapshot at this time.
std::string time_option(std::uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, ns < 1'000'000'000 ? "%.6f" : "%.3f", static_cast<double>(ns) / 1e9);
  return text;
}

/// Without the name of the trace: a copy of it has the same text.
std::string command(const char* name, const std::string& more) {
  return std::string("heapprof ") + name + " TRACE" + (more.empty() ? "" : " " + more);
}

/// `option` with the exact moment, unless that is the end; then empty.
std::string at_option(const char* option, const RssAnswer& answer) {
  if (!answer.profile.slice) return "";
  return std::string(option) + " " + replay::exact_time(answer.at_ns);
}

std::string name_of_part(const RssAnswer& answer, const Part& part, bool full_names) {
  if (part.node == model::kNoIndex)
    return render::clean_utf8(part.name.starts_with("/") ? base_name(part.name) : part.name) +
           (part.writable ? ", writable data" : "");
  const Frame frame = mapping_site(answer, part.node);
  if (frame.module == nullptr) return answer.findings.without_site();
  const std::string function = name_in_table(frame, full_names);
  const std::string location = location_of(frame);
  return location.empty() ? function : function + "  " + location;
}

/// A sample of this age may show another state than the blocks.
constexpr std::uint64_t kOldSampleNs = 50'000'000;

class LineTable {
 public:
  LineTable(const RssOptions& options, const RssAnswer& answer)
      : options_(options), answer_(answer), sizes_(answer.memory.total_bytes()) {
    for (const LineWords& words : kWords) label_width_ = std::max(label_width_, std::string(words.label).size());
  }

  void append_to(ReportText& text) {
    narrow_ = text.style().width < kNarrow;
    const std::size_t room = room_for_words(text.style().width);
    for (std::size_t i = 0; i < rss::kLines; ++i) {
      const auto line = static_cast<Line>(i);
      const rss::LineFigures& figures = answer_.memory[line];
      if (figures.bytes == 0) continue;
      add_line(figures.bytes, label_of(line), meaning_in(answer_, line), room);
      add_parts(figures);
    }
    add_line(answer_.memory.total_bytes(), "resident", "all of these", room);
    write_columns(text, {{"bytes"}, {"share", Column::Kind::kFigure, 1}, {"", Column::Kind::kText}}, rows_);
  }

 private:
  static constexpr std::size_t kNarrow = 60;

  /// The columns that the figures and the labels leave.
  std::size_t room_for_words(std::size_t width) const {
    constexpr std::size_t kShare = 6;  // "<0.01%"
    if (width < kNarrow) return width - std::min(width - 1, 2 + sizes_.text(answer_.memory.total_bytes()).size() + 4);
    const std::size_t used = 2 + sizes_.text(answer_.memory.total_bytes()).size() + 2 + kShare + 2 + label_width_ + 2;
    constexpr std::size_t kMinColumns = 20;
    return width > used + kMinColumns ? width - used : kMinColumns;
  }

  /// The words are wrapped: a reader needs all of them.
  void add_line(std::uint64_t bytes, const std::string& label, const std::string& words, std::size_t room) {
    std::string start = render::pad_right(label, label_width_ + 2);
    const std::vector<std::string> pieces = render::wrapped(words, room);
    const bool own_lines = narrow_;
    add(bytes, own_lines ? label : start + pieces.front());
    start.assign(own_lines ? 2 : label_width_ + 2, ' ');
    for (std::size_t i = own_lines ? 0 : 1; i < pieces.size(); ++i)
      rows_.push_back({{}, {}, {start + pieces[i], TextColour::kBold}});
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
      const std::string name = name_of_part(answer_, part, options_.call_sites.view.full_names);
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
  bool narrow_ = false;  ///< labels and words are in different lines, and there is no share
  std::vector<std::vector<Cell>> rows_;
};

/// The first lines of the output. The events of a recording are not those up to the moment.
void append_title(ReportText& text, const RssAnswer& answer) {
  text.line(text.bold(text.clip(command_of(answer.profile), text.style().width)));
  const std::string more = answer.profile.slice ? " Events up to " + render::human_time(answer.at_ns) + ": " +
                                                      exact_number(answer.profile.events()) + "."
                                                : "";
  const std::string sentences =
      answer.profile.slice ? completeness_of(answer.profile) + "." + more : recorded_sentences(answer.profile);
  for (const std::string& piece : render::wrapped(sentences, text.style().width)) text.line(piece);
  if (!used_project_file.empty()) text.line(text.clip(render::clean_utf8(project_file_words()), text.style().width));
  text.line();
}

void append_source(ReportText& text, const RssAnswer& answer) {
  std::string sentence =
      "Resident memory at " + render::human_time(answer.at_ns) + ": " + human_bytes(answer.memory.total_bytes());
  if (answer.snapshot) {
    sentence += " (snapshot " + exact_number(answer.snapshot->number) + ", " + taken_words(answer) + ")";
  } else if (answer.at_ns - std::min(answer.at_ns, answer.sample->time_ns) < kOldSampleNs) {
    sentence += ", by a sample; the lines are estimated.";
  } else {
    sentence += ", as sampled at " + render::human_time(answer.sample->time_ns) + " (" +
                render::human_time(answer.at_ns - answer.sample->time_ns) + " before); the lines are estimated.";
  }
  for (const std::string& piece : render::wrapped(sentence, text.style().width)) text.line(piece);
}

/// Live bytes change without a change of resident memory, and samples are taken only from time to time.
void append_age_of_sample(ReportText& text, const RssAnswer& answer) {
  if (!answer.sample || answer.at_ns < answer.sample->time_ns + kOldSampleNs) return;
  const model::Timeline::Bucket* at_sample = nullptr;
  for (const model::Timeline::Bucket& bucket : answer.profile.timeline.buckets)
    if (bucket.start_ns <= answer.sample->time_ns) at_sample = &bucket;
  if (at_sample == nullptr) return;
  const std::uint64_t then = at_sample->last_bytes;
  const std::uint64_t now = answer.live_bytes;
  const std::uint64_t change = then > now ? then - now : now - then;
  if (change <= std::max(then, now) / 20) return;
  text.paragraph("Since the sample, the live blocks have " + std::string(then > now ? "shrunk" : "grown") + " from " +
                 human_bytes(then) + " to " + human_bytes(now) + ": resident memory may be " +
                 (then > now ? "lower." : "higher."));
}

/// Which other moment has a better answer.
void append_other_moments(ReportText& text, const RssOptions& options, const RssAnswer& answer) {
  const rss::RecordedResidency& recorded = answer.recorded;
  const std::uint64_t intact_ns = recorded.intact_until_ns.value_or(recorded.end_ns);
  const rss::SnapshotSummary* const intact = rss::snapshot_before(recorded.snapshots, intact_ns);
  if (recorded.intact_until_ns) {
    const std::string missing = "Events after " + render::human_time(intact_ns) + " are missing from the trace";
    if (answer.at_ns > intact_ns)
      text.paragraph(missing + ": the memory of these is in wrong lines, much of it in 'unknown'." +
                     (intact == nullptr
                          ? ""
                          : " --at " + time_option(intact->end_ns) + " shows the last snapshot before that."));
    else if (options.at.empty())
      text.paragraph(missing +
                     ". This is the last snapshot before that; --at 100% shows the end, with the memory of "
                     "missing events in wrong lines.");
  } else if (!answer.snapshot && intact != nullptr && intact->end_ns < answer.at_ns) {
    const rss::SnapshotSummary* const before = rss::snapshot_before(recorded.snapshots, answer.at_ns);
    text.paragraph("The last snapshot before it is " + exact_number(before->number) + ", at " +
                   render::human_time(before->end_ns) + ": --at " + time_option(before->end_ns) +
                   " shows its measured lines.");
  }
  if (answer.profile.integrity.ended_by == "running" && !answer.profile.slice && !answer.snapshot)
    text.paragraph("The program still runs: '" + command("control", "snapshot") + "' takes a snapshot now.");
  if (!options.at.empty()) return;
  const rss::SnapshotSummary* highest = nullptr;
  for (const rss::SnapshotSummary& one : recorded.snapshots)
    if (one.complete && one.end_ns <= intact_ns && (highest == nullptr || one.statm_bytes > highest->statm_bytes))
      highest = &one;
  const std::uint64_t total = answer.memory.total_bytes();
  if (highest != nullptr && highest->end_ns < answer.at_ns && highest->statm_bytes > total + total / 10)
    text.paragraph("The highest snapshot has " + human_bytes(highest->statm_bytes) + ", at " +
                   render::human_time(highest->end_ns) + ": --at " + time_option(highest->end_ns) + ".");
}

/// What the reader has to know about the figures.
void append_remarks(ReportText& text, const RssAnswer& answer) {
  const std::uint64_t total = answer.memory.total_bytes();
  if (!answer.snapshot) {
    text.paragraph(
        "Estimated: all pages of live blocks and of mappings count as resident, as far as the sample allows." +
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
    text.paragraph("The snapshot was taken from " + render::human_time(snapshot.begin_ns) + " to " +
                   render::human_time(snapshot.end_ns) +
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
             answer.snapshot ? "of live blocks, not resident" : "of live blocks, at least");
  if (!answer.snapshot) return;
  if (memory.swapped_bytes != 0) text.row("swapped", human_bytes(memory.swapped_bytes), "of all memory");
  if (memory.huge_tlb_bytes != 0) text.row("hugetlb", human_bytes(memory.huge_tlb_bytes), "in hugetlbfs");
  text.row("page tables", human_bytes(memory.page_table_bytes), "of the kernel, estimated");
}

/// A part of the sum that is in two lines.
void append_written(ReportText& text, const RssAnswer& answer) {
  const std::optional<std::uint64_t> bytes = answer.memory.written_file_bytes;
  if (!bytes || *bytes == 0) return;
  text.paragraph("Of the files, with those of the recorder, " + human_bytes(*bytes) +
                 " were written: private copies of this process. Other processes may share the rest.");
}

/// Why there is no snapshot.
std::string no_snapshots_words(const model::Recording& recording) {
  const auto& settings = recording.settings;
  const std::pair<std::string, std::string> off("HEAPPROF_SNAPSHOTS", "0");
  if (std::find(settings.begin(), settings.end(), off) != settings.end())
    return "No snapshots: this trace was recorded with --snapshots off. Record without it to get measured lines "
           "instead of estimates.";
  if (recording.trace_version == "1.0")
    return "No snapshots: this trace was recorded by an older heapprof. Record again to get measured lines instead "
           "of estimates.";
  return "No snapshots: the program took none before its recording ended. 'heapprof control TRACE snapshot' takes "
         "one while it runs.";
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
  constexpr std::size_t kLargest = 8;
  std::vector<const rss::SnapshotSummary*> complete;
  for (const rss::SnapshotSummary& one : answer.recorded.snapshots)
    if (one.complete) complete.push_back(&one);
  if (complete.empty()) {
    text.line();
    for (const std::string& piece : render::wrapped(no_snapshots_words(answer.profile.recording), text.style().width))
      text.line(piece);
    return;
  }
  const std::size_t all = complete.size();
  const rss::SnapshotSummary* const last = complete.back();
  const auto is_shown = [&](const rss::SnapshotSummary* one) {
    return answer.snapshot && answer.snapshot->number == one->number;
  };
  std::stable_sort(complete.begin(), complete.end(),
                   [](const auto* a, const auto* b) { return a->statm_bytes > b->statm_bytes; });
  if (options.top != 0 && complete.size() > kLargest)
    complete.erase(std::remove_if(complete.begin() + kLargest, complete.end(),
                                  [&](const auto* one) { return one != last && !is_shown(one); }),
                   complete.end());
  std::sort(complete.begin(), complete.end(), [](const auto* a, const auto* b) { return a->number < b->number; });
  text.heading(complete.size() == all ? "Snapshots (--at TIME)"
                                      : "Snapshots (--at TIME; " + exact_number(complete.size()) + " of " +
                                            exact_number(all) + ", --top 0: all)");
  std::uint64_t largest = 0;
  for (const auto* one : complete) largest = std::max(largest, one->statm_bytes);
  const render::ByteColumn sizes(largest);
  std::vector<std::vector<Cell>> rows;
  for (const auto* one : complete)
    rows.push_back({{time_option(one->end_ns)},
                    {one->statm_bytes == 0 ? "" : sizes.text(one->statm_bytes)},
                    {reason_of(*one) + (is_shown(one) ? "; shown above" : "")}});
  write_columns(text, {{"seconds"}, {"resident"}, {"reason", Column::Kind::kText}}, rows);
}

}  // namespace

const char* label_of(Line line) { return kWords[static_cast<std::size_t>(line)].label; }
const char* meaning_of(Line line) { return kWords[static_cast<std::size_t>(line)].meaning; }

Frame mapping_site(const RssAnswer& answer, std::uint32_t node) {
  const findings::FrameRef site =
      findings::call_site_of(answer.mapping_findings.frames(), answer.mapping_findings.helpers(), node);
  return site.exists() ? answer.mapping_findings.frame(site) : text_frame(answer.findings.without_site());
}

std::string rss_verdict(const RssAnswer& answer) {
  const rss::ResidentMemory& memory = answer.memory;
  const std::uint64_t total = memory.total_bytes();
  if (total == 0) return "No memory was resident.";
  const auto amount = [&](std::uint64_t bytes) { return human_bytes(bytes) + " (" + percent(bytes, total) + ")"; };
  const std::string call = allocators::trim_call(answer.allocator);
  const std::uint64_t returnable = memory.bytes_of(Line::kReturnable);
  const std::uint64_t free_but_kept =
      memory.bytes_of(Line::kHoles) + memory.bytes_of(Line::kHeldBack) - free_ends(memory);
  // What is less than a tenth of resident memory does not explain it.
  const std::uint64_t worth_naming = total / 10;
  const std::string up_to = answer.snapshot && answer.allocator != Allocator::kTcmalloc ? "" : "up to ";
  // Nobody can trim the heap of a program that has exited.
  const bool exited = shows_exit(answer);
  const std::string returned =
      call + (exited ? " would have returned " : " would return ") + up_to + amount(returnable);
  if (returnable >= worth_naming && returnable >= free_but_kept)
    return returned + (exited ? ", since no live block kept it" : ", since no live block keeps it") +
           (allocators::returns_memory_by_itself(answer.allocator)
                ? "; " + std::string(allocators::name_of(answer.allocator)) +
                      " also does so by itself, after a while."
                : ".");
  if (free_but_kept >= worth_naming)
    return human_bytes(free_but_kept) + " of free memory, " + percent(free_but_kept, total) +
           " of resident memory, cannot be returned, because live blocks are next to it (holes" +
           (memory.bytes_of(Line::kHeldBack) > free_ends(memory) ? " and held back" : "") + "): '" +
           command("pins", at_option("--at", answer)) + "' names their call sites." +
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
      return std::string(bytes * 2 >= total ? "Most of it is" : "The largest part is") +
             " live blocks: " + human_bytes(memory.bytes_of(Line::kRequested)) + " asked for and " +
             human_bytes(memory.bytes_of(Line::kRounding)) + " of rounding (" + percent(bytes, total) + "). '" +
             command("report", at_option("--live-at", answer)) + "' names the call sites.";
    case Line::kMmap:
      return part + "was mapped by the program itself (mmap): '" +
             command("rss", (answer.profile.slice ? at_option("--at", answer) + " " : "") + "--top 0 --stacks 0") +
             "' prints all call sites and stacks.";
    case Line::kFiles:
      return part + "is pages of files: the kernel shares them between processes, and drops those that were not " +
             "written when memory is short.";
    case Line::kRecorder: return part + "is heapprof's own: the process is too small to be explained by its heap.";
    default: return part + "is in the line '" + label_of(largest) + "': " + meaning_in(answer, largest) + ".";
  }
}

std::string rss_text(const RssOptions& options, const RssAnswer& answer) {
  ReportText text(answer.profile, answer_style(options.trace.output, options.frames), &answer.findings);
  append_title(text, answer);
  append_source(text, answer);
  append_age_of_sample(text, answer);
  append_other_moments(text, options, answer);
  text.line();
  LineTable(options, answer).append_to(text);
  text.line();
  text.paragraph(rss_verdict(answer));
  append_remarks(text, answer);
  append_written(text, answer);
  append_outside(text, answer);
  append_mapping_stacks(text, options, answer);
  append_snapshots(text, options, answer);
  text.line();
  text.command("Who keeps free memory", command("pins", at_option("--at", answer)));
  text.command("Who asked for memory", command("report", at_option("--live-at", answer)));
  std::vector<std::string> warnings = answer.names.warnings();
  if (!answer.note.empty()) warnings.insert(warnings.begin(), answer.note);
  text.notes(warnings);
  return text.text();
}

}  // namespace heapprof::cli
